"""Files and messages from anybody: whatever is in them, a reader returns or raises a ValueError of one line.

Valid files are damaged (bytes exchanged, cut, repeated, lengths changed), and network files are made of any values.
`make test` takes a few seconds for this; `make check` a minute. Longer, with new examples every time:
pytest tests/test_fuzz.py --hypothesis-profile=search
"""

import io
import os
import tempfile
import time
from dataclasses import fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airpool import Network, NetworkError, Ranking
from airpool._support import files
from airpool.models import latents as latents_file
from airpool.models.vision import meshes
from airpool.network import file as network_file
from airpool_lab.training import sensors as features_file
from airpool_lab.vision import cad
from airpool_runtime.keys import authority, credentials
from airpool_runtime.ledger import backup, mechanism

NUMBERS = ["0", "-1", "1e999", "nan", "inf", "99999999999999999999", "1e-320", "0x10", '"', "true", "[]", "{}", "\n"]
OFF = b"OFF\n4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n3 0 2 3\n3 1 2 3\n"
PLY = (
    b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
)
STL = bytes(80) + np.uint32(1).tobytes() + np.arange(12, dtype="<f4").tobytes() + b"\0\0"


@cache
def _tensor_file(kind):
    import torch

    rng = torch.Generator().manual_seed(1)
    many = {"latents": torch.randn((3, 2, 4), generator=rng), "labels": torch.tensor([0, 1, 1])}
    packed = {"latents": torch.ones((3, 2, 4), dtype=torch.int8), "step": torch.tensor([0.5]), "labels": many["labels"]}
    given = {"latents": many | {"classifier": torch.ones(2, 4)}, "packed": packed}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        files.write_tensors(path, given[kind], {"about": {"kind": "fuzz"}})
        return path.read_bytes()


@cache
def _export():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from airpool_runtime.ledger import chain, clock

    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    origin = chain.Origin("00", "device-3", key.public_key().public_bytes_raw().hex())
    one = mechanism.mechanism(Network.uniform(num_devices=2), device=0)
    row = chain.signed(key, chain.Tip(0, origin.hash), clock.now(None), inference="a", mechanism=one.digest, scene="")
    return "\n".join(backup.exported(backup.Content(origin, {one.digest: one.text}, (row,)))).encode()


@cache
def _meshes():
    packed = [cad.pack(np.array([[0, 0, 0], [9, 0, 0], [9, 9, 0]]), np.array([[0, 1, 2]]))] * 2
    text = {"split": ["train", "test"], "name": ["a_1", "a_2"], "source": ["cad", "cad"], "classes": ["a"]}
    found = cad.joined(packed, label=np.array([0, 0]), **{name: np.array(each) for name, each in text.items()})
    file = io.BytesIO()
    np.savez(file, **{each.name: getattr(found, each.name) for each in fields(found)})
    return file.getvalue()


@cache
def _certificate():
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        authority.create(keys)
        return (keys / "server" / "tls.crt").read_bytes() + (keys / "ca.crt").read_bytes()


def on_disk(read):
    def call(data, folder):
        path = folder / "file"
        path.write_bytes(data)
        return read(path)

    return call


def network_bytes(data, folder):
    path = folder / "net.toml"
    path.write_bytes(data)
    try:
        return network_file.read(path)
    except NetworkError:
        return None


def export_bytes(data, folder):
    found = backup.imported(data.decode("utf-8", "replace").splitlines())
    return list(backup.faults(found))


def certificate_bytes(data, folder):
    whole = _certificate()
    ca = whole[whole.index(b"-----END CERTIFICATE-----") + 26 :]
    (folder / "revoked.crl").write_bytes(data)
    try:
        return credentials.Trust(ca, folder / "revoked.crl").name(data)
    except credentials.UntrustedError as error:
        raise ValueError(str(error)) from None


# What is damaged, and what reads it.
TARGETS = {
    "toml": (network_file.dump(Network.uniform(num_devices=3, scheme=Ranking(num_selected=2))).encode(), network_bytes),
    "off": (OFF, lambda data, _: meshes.parse(data, name="x.off", limits=meshes.Limits(num_bytes=2**16))),
    "obj": (
        b"o x\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nmtllib a.mtl\nf 1//1 2//1 3//1\n",
        lambda data, _: meshes.parse(data, name="x.obj", limits=meshes.Limits(num_bytes=2**16)),
    ),
    "ply": (PLY, lambda data, _: meshes.parse(data, name="x.ply", limits=meshes.Limits(num_bytes=2**16))),
    "stl": (STL, lambda data, _: meshes.parse(data, name="x.stl", limits=meshes.Limits(num_bytes=2**16))),
    "safetensors": (lambda: _tensor_file("latents"), on_disk(files.read_tensors)),
    "latents": (lambda: _tensor_file("latents"), on_disk(latents_file.read)),
    "packed latents": (lambda: _tensor_file("packed"), on_disk(latents_file.read)),
    "features": (lambda: _tensor_file("latents"), on_disk(features_file.read)),
    "views": (lambda: _tensor_file("latents"), on_disk(latents_file.read_views)),
    "meshes": (_meshes, on_disk(cad.read)),
    "export": (_export, export_bytes),
    "mechanism": (
        mechanism.mechanism(Network.uniform(num_devices=2), device=0).text.encode(),
        lambda data, _: mechanism.parse(data.decode("utf-8", "replace")),
    ),
    "certificate": (_certificate, certificate_bytes),
}

EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 2**16), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("insert"), st.integers(0, 2**16), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("insert"), st.integers(0, 2**16), st.sampled_from([n.encode() for n in NUMBERS])),
        st.tuples(st.just("cut"), st.integers(0, 2**16), st.integers(1, 64)),
        st.tuples(st.just("repeat"), st.integers(0, 2**16), st.integers(1, 64)),
        st.tuples(st.just("end"), st.integers(0, 2**16), st.just(0)),
    ),
    max_size=6,
)


def damaged(data, edits):
    for how, place, what in edits:
        at = place % (len(data) + 1)
        match how:
            case "set":
                data = data[:at] + what + data[at + len(what) :]
            case "insert":
                data = data[:at] + what + data[at:]
            case "cut":
                data = data[:at] + data[at + what :]
            case "repeat":
                data = data[:at] + data[at : at + what] * 3 + data[at + what :]
            case "end":
                data = data[:at]
            case _:
                raise AssertionError(how)
    return data


def read_without_surprise(name, data, folder):
    """A result or a ValueError; a MemoryError would be a surprise, and so would a warning."""
    said = "a result"
    try:
        TARGETS[name][1](data, folder)
    except ValueError as error:
        said = str(error)
    assert 0 < len(said) < 2000


def seed_of(name):
    found = TARGETS[name][0]
    return found() if callable(found) else found


@pytest.mark.parametrize("name", TARGETS)
def test_an_undamaged_file_is_read(name, tmp_path):
    if name not in ("certificate", "features", "views"):
        assert TARGETS[name][1](seed_of(name), tmp_path) is not None


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused(name, tmp_path_factory):
    folder, open_files = (
        tmp_path_factory.mktemp("fuzz"),
        len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
    )

    @settings(max_examples=40)
    @given(EDITS)
    def attempt(edits):
        read_without_surprise(name, damaged(seed_of(name), edits), folder)

    attempt()
    if open_files:
        assert len(os.listdir("/proc/self/fd")) <= open_files + 3


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**80), 2**80),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["1", "2.1", "2.2", "auto", "rician", "orthogonal", "paper", "sionna:tdl-d", 3, 0.5, 1e-5]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
KEYS = {
    "": ["version", "dimension", "cover_noise", "colluders", "dropouts", "delta", "x"],
    "devices": ["count", "weight", "clip_norm", "noise_std", "participation", "power_dbm", "path_loss_db", "epsilon"],
    "channel": ["fading", "k_factor_db", "noise_std", "access", "power_rule", "gamma", "outage", "antennas", "redrawn"],
    "scheme": ["name", "score", "score_rule", "score_bound", "score_noise_std", "threshold", "num_selected"],
    "adversary": ["antennas", "knows_answer"],
    "claim": ["delta", "neighbours", "inferences", "colluding", "live", "per_event", "knows_answer", "x"],
}


def tables():
    one = {name: st.dictionaries(st.sampled_from(keys), VALUES, max_size=4) for name, keys in KEYS.items()}
    several = st.fixed_dictionaries({name: one[name] for name in KEYS if name})
    return st.tuples(one[""], several).map(lambda both: {"version": 3, **both[1], **both[0]})


@settings(max_examples=60)
@given(tables(), st.integers(1, 5))
def test_a_network_of_any_values_is_built_or_refused(data, count):
    data.setdefault("devices", {})
    if isinstance(data["devices"], dict):
        data["devices"].setdefault("count", count)
    try:
        built, claim = network_file.build(data), network_file.build_claim(data)
    except NetworkError:
        return
    text = network_file.dump(built, claim)
    assert (network_file.parse(text), network_file.parse_claim(text)) == (built, claim)


@pytest.mark.check
@pytest.mark.parametrize("name", TARGETS)
def test_readers_hold_for_a_bounded_time(name, tmp_path_factory):
    """New examples every time, for at most three seconds each: a minute in all."""
    folder, end = tmp_path_factory.mktemp("fuzz"), time.monotonic() + 3.0

    @settings(max_examples=300, derandomize=False, suppress_health_check=[HealthCheck.too_slow])
    @given(EDITS)
    def attempt(edits):
        if time.monotonic() < end:
            read_without_surprise(name, damaged(seed_of(name), edits), folder)

    attempt()
