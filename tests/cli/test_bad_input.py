"""Bad input to the commands: one line that names the value and says what is allowed, and nothing left behind."""

import asyncio
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from airpool import cli
from airpool_runtime import logs, remote, sources
from airpool_runtime.messages import DisconnectedError

SMALL = "--devices 3 --noise-std 0.1 --dimension 6"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.npz").write_bytes(b"junk")
    (tmp_path / "junk.npy").write_bytes(pickle.dumps({"a": 1}))
    np.save("objects.npy", np.array([{}], dtype=object))
    np.savez("several.npz", a=np.zeros(2))
    (tmp_path / "net.toml").write_text("version = 3\n[devices]\ncount = 3\nnoise_std = 0.1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("radio evaluate --taps 0", "--taps 0 must be ≥ 1"),
        ("radio evaluate --timing -1", "--timing -1 must be ≥ 0"),
        ("radio evaluate --direct 2", "--direct 2 must be from 0 to 1"),
        ("radio evaluate --carrier-std nan", "--carrier-std nan must be >= 0 and finite"),
        ("radio evaluate --limit 0", "--limit 0 must be > 0"),
        (f"radio transmit {SMALL} --latent junk.npz --device 0 --out x", "junk.npz: no npy file that can be read"),
        (f"radio transmit {SMALL} --latent junk.npy --device 0 --out x", "junk.npy: no npy file that can be read"),
        (f"radio transmit {SMALL} --latent objects.npy --device 0 --out x", "objects.npy: no npy file"),
        (f"radio transmit {SMALL} --latent several.npz --device 0 --out x", "several.npz: holds several arrays"),
        (f"epsilon {SMALL} --budget-epsilon 0", "--budget-epsilon 0 must be > 0 and finite"),
        (f"calibrate {SMALL} --epsilon 1,2", "--epsilon has 2 values for"),
        ("data info junk.npz", "not a packed file of meshes (it holds no plain arrays)"),
        (
            "train codec --features junk.npz --out x",
            "junk.npz: no npz file that can be read (it holds no plain arrays)",
        ),
        ("ledger rebuild junk.npy --out r.db", "junk.npy is no export"),
        (f"epsilon {SMALL} --fading sionna:", "must be one of tdl-a"),
        ("up --devices 3 --ledger l --inferences 1", "--ledger needs --keys"),
        ("demo --epsilon 0", "--epsilon 0 must be > 0"),
        ("demo --object nothing", "nothing"),
    ],
)
def test_bad_input_is_named_and_leaves_nothing(words, said, here, refused):
    before = set(here.rglob("*"))
    text = refused(*words.split())
    assert said in text
    assert "pickle" not in text
    assert set(here.rglob("*")) == before


def test_a_device_that_cannot_connect_says_why_once_and_then_rarely(monkeypatch):
    tries, told = [], []

    async def nowhere():
        tries.append(0)
        if len(tries) > 8:
            raise asyncio.CancelledError
        raise DisconnectedError("the air cannot be reached" if len(tries) < 7 else "rejected")

    monkeypatch.setattr(remote, "_LONGEST_WAIT", 0.0)
    monkeypatch.setattr(remote, "_SHORTEST_WAIT", 0.0)
    monkeypatch.setattr(logs, "observers", [lambda _, fields: told.append(fields["reason"])])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(remote.connected(nowhere, lambda _: nowhere()))
    assert told == ["the air cannot be reached", "rejected"]


def test_a_tls_mismatch_is_said_in_words():
    said = remote._plain("failed to connect: SSL_ERROR_SSL: WRONG_VERSION_NUMBER: Invalid certificate OK")
    assert said == "the other end speaks without TLS, this one with: give --keys to both or to neither"
    assert remote._plain("Socket closed") == "Socket closed"


@pytest.mark.parametrize(("devices", "note"), [(3, "left out: 1, 2"), (12, None), (13, "repeated in turn")])
def test_up_says_which_cameras_are_left_out(devices, note):
    said = sources.cameras_of("latents:modelnet40/test", devices)
    assert (note or "") in (said or "")
    assert (said is None) == (note is None)
    assert sources.cameras_of("mesh:some", devices) is None


def test_no_table_shows_a_negative_zero():
    assert f"{-1e-9:+z.4f}" == "+0.0000"
    for path in Path(cli.__file__).parent.glob("*.py"):
        signed = re.findall(r":\+\.\d[fg]", path.read_text("utf-8"))
        assert not signed, f"{path.name}: use +z for {signed}"


@pytest.mark.parametrize(
    "words",
    [
        f"epsilon {SMALL} --delta 0",
        f"epsilon {SMALL} --delta 1e-400",
        f"epsilon {SMALL} --delta nan",
        f"epsilon {SMALL} --inferences 0",
        f"epsilon {SMALL} --inferences 99999999999999",
        f"epsilon {SMALL} --participation 0.1,0.2",
        f"epsilon {SMALL} --weight -1",
        f"epsilon {SMALL} --odds --prior 0",
        f"epsilon {SMALL} --odds --prior 2",
        f"epsilon {SMALL} --odds --prior nan",
        f"epsilon {SMALL} --plot fig.xyz",
        f"epsilon {SMALL} --plot net.toml/fig.png",
        f"epsilon {SMALL} --slots 0",
        f"epsilon {SMALL} --slots 2 --sure 2",
        f"epsilon {SMALL} --colluders 3",
        f"epsilon {SMALL} --dropouts -1",
        f"epsilon {SMALL} --neighbours nobody",
        f"epsilon {SMALL} --budget-epsilon 0",
        f"epsilon {SMALL} --mean-slots -1",
        "epsilon --network nowhere.toml",
        "epsilon --network .",
        "epsilon --network net.toml --devices 4",
        "epsilon --devices 1e3 --noise-std 0.1",
        "epsilon --devices 3 --noise-std ,",
        "epsilon --devices 3 --noise-std 0.1 --fading fog",
        "epsilon --devices 3 --noise-std 0.1 --gamma -1 --fading rician",
        f"calibrate {SMALL} --epsilon 0",
        f"calibrate {SMALL} --epsilon 1,2",
        f"calibrate {SMALL} --epsilon nan",
        f"calibrate {SMALL} --epsilon 2 --adjust love",
        f"calibrate {SMALL} --epsilon 2 --out net.toml/x.toml",
        f"calibrate {SMALL} --epsilon 2 --out .",
        f"calibrate {SMALL} --odds 0.4",
        f"calibrate {SMALL} --odds 2",
        f"calibrate {SMALL} --epsilon 1e-9 --adjust inferences",
        f"attack nobody {SMALL}",
        f"attack antipodal {SMALL} --position moon",
        f"attack antipodal {SMALL} --trials 0",
        f"attack antipodal {SMALL} --option x",
        f"attack antipodal {SMALL} --device 9",
        "sweep nobody",
        "sweep epsilon --set x",
        "sweep epsilon --set devices=3 --out t.xls",
        "sweep epsilon --set devices=3 --backend moon",
        "sweep epsilon --set devices=3 --workers 0",
        f"radio transmit {SMALL} --latent junk.npy --device 0 --out o",
        f"radio transmit {SMALL} --latent junk.npz --device 0 --out o",
        f"radio receive {SMALL} --recordings , --out s.npy",
        f"radio receive {SMALL} --recordings net.toml --out s.npy",
        "radio evaluate --taps 0",
        "radio evaluate --timing -1",
        "ledger show net.toml",
        "ledger show nowhere.db",
        "ledger verify net.toml --key net.toml",
        "ledger export net.toml --out e.jsonl",
        "ledger backup nowhere.db --out deep/er/b.db",
        "ledger rebuild net.toml --out new/r.db",
        "ledger fleet nonsense",
        "ledger fleet sqlite:///net.toml",
        "ledger show net.toml --neighbours x",
        "keys show --keys nowhere",
        "keys device device-0 --keys nowhere",
        "keys init --keys net.toml",
    ],
)
def test_further_bad_input_ends_with_one_line_and_leaves_nothing(words, here, refused):
    """No traceback (`refused` wants exit status 2), and no file or folder that was not there."""
    before = set(here.rglob("*"))
    assert "Traceback" not in refused(*words.split())
    assert set(here.rglob("*")) == before
