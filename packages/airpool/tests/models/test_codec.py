"""The codec by itself: latents that fit the clip norm whatever comes in, a decoder that knows the noise, a file."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from airpool.models import weights
from airpool.models.codecs import codec as codecs
from airpool.models.codecs.dense import CodecShape, DenseCodec, paper_shape
from airpool.models.codecs.training import initial
from airpool.models.layers import in_float64, in_numpy, through
from airpool.network import Channel, Network
from airpool.protocol.inference import Simulation, infer_features
from airpool.radio.link import Level, level

SMALL = CodecShape(dimension=6, num_classes=4, features=10, hidden=16, server_hidden=16)
MAP = replace(SMALL, kind="map", hidden=3)
SHORT = replace(SMALL, full_norm=False)


def made(shape: CodecShape = SMALL, *, seed: int = 0) -> DenseCodec:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return initial(shape)


def drawn(*size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


# --- on the device ---


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 999), shape=st.sampled_from([SMALL, MAP]))
def test_every_latent_has_length_one(scale, seed, shape):
    latents = made(shape, seed=seed).encoder(drawn(5, 3, shape.width, seed=seed) * scale)
    assert latents.shape == (5, 3, 6)
    torch.testing.assert_close(latents.norm(dim=-1), torch.ones(5, 3))


@given(scale=st.floats(1e-6, 1e6), seed=st.integers(0, 999))
def test_without_full_norm_no_latent_is_longer_than_one_and_short_ones_stay_as_they_are(scale, seed):
    codec, features = made(SHORT, seed=seed), drawn(5, 3, 10, seed=seed) * scale
    latents = codec.encoder(features)
    raw = codec.layer("encoder.out", F.relu(codec.layer("encoder.hidden", features)))
    assert (latents.norm(dim=-1) <= 1 + 1e-6).all()
    short = raw.norm(dim=-1) <= 1
    assert torch.equal(latents[short], raw[short])
    torch.testing.assert_close(F.normalize(latents, dim=-1), F.normalize(raw, dim=-1))


def test_features_are_centred_and_scaled_first():
    codec, features = made(), drawn(2, 10)
    plain = codec.encoder(features)
    centre = codec.arrays["encoder.centre"].copy_(drawn(10, seed=1))
    codec.arrays["encoder.scale"].fill_(3.0)
    torch.testing.assert_close(codec.encoder(3 * features + centre), plain)


def test_a_map_is_seen_by_one_layer_at_every_place_and_another_over_all_of_them():
    codec, maps = made(MAP), drawn(2, 10, 7, 7)
    own = codec.arrays
    hidden = F.relu(F.conv2d(maps, own["encoder.hidden.weight"][:, :, None, None], own["encoder.hidden.bias"]))
    last = own["encoder.out.weight"].unflatten(1, (7, 7, 3))
    expected = torch.einsum("bcij,rijc->br", hidden, last) + own["encoder.out.bias"]
    torch.testing.assert_close(codec.encoder(maps.flatten(1)), F.normalize(expected, dim=-1))


def test_the_papers_codec_of_q_channels_sends_q_numbers_for_every_place():
    for q in (1, 16):
        shape = paper_shape(q, num_classes=4)
        assert shape.width == 512 * 49
        assert shape.dimension == q * 49


def test_nothing_drops_out_once_it_is_trained():
    features = drawn(4, 10)
    learning = replace(made(), drop=F.dropout)
    assert torch.equal(made().encoder(features), made().encoder(features))
    assert not torch.equal(learning.encoder(features), made().encoder(features))
    assert codecs.moved(learning, torch.clone).drop is None  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("shape", [SMALL, SHORT, replace(SMALL, told=False)], ids=["full", "short", "untold"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e38, -1e30, 0.0])
def test_no_feature_makes_an_inference_fail_and_what_is_not_finite_is_sent_as_nothing(shape, bad):
    codec, features = made(shape), drawn(3, 4, 10)
    network = Network.uniform(
        num_devices=4, dimension=6, noise_std=0.1, channel=Channel("rician", noise_std=0.3), participation=0.8
    )
    features[0, 1] = bad
    features[1] = bad
    server = codec.server(level(network))

    def label(latents: torch.Tensor) -> Any:
        rng = torch.Generator().manual_seed(5)
        return infer_features(latents, network, server=server, rng=rng, simulation=Simulation(trials=20))

    latents = codec.encoder(features)
    out = label(latents)
    assert out.logits.isfinite().all()
    nothing = latents.where(latents.isfinite().all(-1, keepdim=True), 0.0)
    assert torch.equal(out.logits, label(nothing).logits)
    assert (out.label[out.received.any_signal] >= 0).all()


# --- on the server ---


def test_the_decoder_is_told_the_noise_within_limits():
    decoder, estimate = made().decoder, drawn(5, 2, 6)
    assert decoder(estimate, 0.1).shape == (5, 2, 4)
    assert not torch.allclose(decoder(estimate, 0.1), decoder(estimate, 0.3))
    assert torch.equal(decoder(estimate, 0.0), decoder(estimate, 0.02))
    assert torch.equal(decoder(estimate, float("inf")), decoder(estimate, 1.0))


def test_every_estimate_may_have_a_noise_of_its_own():
    decoder, estimate, ratio = made().decoder, drawn(3, 2, 6), torch.tensor([0.05, 0.2, 0.8])[:, None, None]
    found = decoder(estimate, ratio)
    for i in range(3):
        torch.testing.assert_close(found[i], decoder(estimate[i], float(ratio[i])))


def test_a_decoder_that_is_not_told_gives_one_answer():
    codec, estimate = made(replace(SMALL, told=False)), drawn(5, 6)
    hidden = F.relu(codec.layer("decoder.hidden", torch.cat((estimate, torch.zeros(5, 1)), -1)))
    for ratio in (0.0, 0.3, float("inf")):
        assert torch.equal(codec.decoder(estimate, ratio), codec.layer("decoder.out", hidden))


def test_a_server_undoes_the_loudness_of_its_network():
    codec, estimate = made(), drawn(5, 6)
    loud = codec.server(Level(signal=8.0, noise_std=0.8))
    torch.testing.assert_close(loud(8 * estimate), codec.decoder(estimate, 0.1))


@pytest.mark.parametrize("noise_std", [0.0, 0.5])
def test_where_nobody_sends_there_is_still_an_answer_and_no_error(noise_std):
    assert made().server(Level(0.0, noise_std))(drawn(5, 6)).isfinite().all()


# --- without torch ---


@pytest.mark.parametrize(
    "shape", [SMALL, MAP, SHORT, replace(SMALL, encoders=3)], ids=["compact", "map", "short", "own"]
)
def test_the_same_code_gives_the_same_in_numpy(shape):
    codec, features, estimate = made(shape), drawn(5, 3, shape.width), drawn(5, 6)
    plain = codecs.moved(codec, in_numpy)
    assert all(isinstance(each, np.ndarray) for each in plain.parts()[0].values())
    np.testing.assert_allclose(plain.encoder(features.numpy()), codec.encoder(features), atol=1e-6)
    level = Level(0.9, 0.1)
    np.testing.assert_allclose(plain.server(level)(estimate.numpy()), codec.server(level)(estimate), atol=1e-5)
    wide = codecs.moved(codec, in_float64)
    found = wide.server(level)(estimate.double().numpy())
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, through(codec.matrices(level), estimate.double().numpy()), atol=1e-12)


# --- on disk ---


@pytest.mark.parametrize("shape", [SMALL, MAP, replace(SHORT, told=False)], ids=["compact", "map", "odd"])
def test_a_codec_comes_back_from_its_file_in_half_precision(shape, tmp_path):
    codec, file = made(shape), tmp_path / "c.safetensors"
    codec.arrays["encoder.centre"].copy_(drawn(10, seed=1) * 1e-6)  # would be lost in half precision
    codecs.save(file, codec, {"seed": 7})
    before = torch.get_rng_state()
    back, about = codecs.load(file)
    assert torch.equal(torch.get_rng_state(), before)
    assert back.shape == shape
    assert about["seed"] == 7
    assert torch.equal(back.arrays["encoder.centre"], codec.arrays["encoder.centre"])
    for name, tensor in codec.arrays.items():
        torch.testing.assert_close(back.arrays[name], tensor, rtol=1e-3, atol=1e-6)
    assert {t.dtype for name, t in load_file(file).items() if name.endswith("weight")} == {torch.float16}
    features = drawn(4, shape.width)
    latents = codec.encoder(features)
    torch.testing.assert_close(back.encoder(features), latents, rtol=0, atol=1e-3)
    torch.testing.assert_close(back.decoder(latents, 0.1), codec.decoder(latents, 0.1), rtol=0, atol=1e-2)
    again = tmp_path / "again.safetensors"
    codecs.save(again, back, {"seed": 7})
    assert again.read_bytes() == file.read_bytes()


def test_a_damaged_file_is_one_clear_error(tmp_path):
    file = tmp_path / "c.safetensors"
    codecs.save(file, made(), {})
    whole = file.read_bytes()
    for content in (b"", whole[:100], whole[:-1], whole + b"x", b"PK" + whole):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"c\.safetensors: damaged, or no safetensors file"):
            codecs.load(file)
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        codecs.load(tmp_path / "absent")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "holds no codec"),
        ({"codec": None}, "holds no codec"),
        ({"codec": {"colour": 1}}, "holds no codec"),
        ({"codec": asdict(SMALL) | {"dimension": 0}}, "dimension=0 must be ≥ 1"),
        ({"codec": asdict(SMALL) | {"dimension": "six"}}, "holds no codec"),
        ({"codec": asdict(SMALL) | {"hidden": 16.0}}, "holds no codec"),
        ({"codec": asdict(SMALL) | {"kind": "cnn"}}, "codec 'cnn' is not known; there is compact, map, vote"),
        ({"codec": asdict(SMALL) | {"dimension": 7}}, "is missing or does not fit"),
        ({"codec": asdict(MAP)}, "is missing or does not fit"),
    ],
)
def test_a_file_whose_header_does_not_fit_is_one_clear_error(header, message, tmp_path):
    weights.write(tmp_path / "x.safetensors", made().arrays, header)
    with pytest.raises(ValueError, match=r"x\.safetensors: ") as error:
        codecs.load(tmp_path / "x.safetensors")
    assert message in str(error.value)


def test_a_codec_that_diverged_is_not_written(tmp_path):
    codec = made()
    codec.arrays["decoder.out.weight"].fill_(float("nan"))
    with pytest.raises(ValueError, match=r"decoder\.out\.weight is not finite"):
        codecs.save(tmp_path / "c.safetensors", codec, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({name: 0}, f"{name}=0 must be ≥ 1")
        for name in ("dimension", "num_classes", "features", "hidden", "server_hidden")
    ]
    + [({"kind": "paper"}, "kind='paper' must be 'compact' or 'map'")],
)
def test_a_shape_that_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)
