"""The network file: read and written without loss, every key of the specification, every mistake in one line."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool.network import Adversary, Channel, Devices, Network, NetworkError, Ranking, Threshold, named_scheme
from airpool.network.file import dump, parse, read, write

EXAMPLE = """
version = 1
dimension = 64               # r
delta = 1e-5
neighbours = "zero-out"      # zero-out | replace | remove
cover_noise = false
colluders = 0
dropouts = 0
inferences = 1

[devices]
count = 12
weight = 0.0833333           # default 1/count
clip_norm = 1.0
noise_std = 0.05
participation = 1.0
power_dbm = 30.0
epsilon = 2.0                # optional target (scalar or list), for calibrate and plan

[channel]
fading = "none"              # none | rician | rayleigh | sionna:tdl-d | ...
k_factor_db = 4.8
noise_std = 0.0
access = "superposed"        # superposed | orthogonal
power_rule = "truncate"      # truncate | backoff | paper
gamma = "auto"               # or a number
outage = 0.01
csi_error_std = 0.0
phase_error_std = 0.0

[scheme]
name = "1"                   # 1 | 2.1 | 2.2
score = "shannon"            # shannon | min
score_rule = "clip"          # clip | scale
score_bound = 1.0
score_noise_std = 0.3162
threshold = 0.5              # 2.1
num_selected = 11            # 2.2
"""

FINITE = st.floats(-300, 300)
POSITIVE = st.floats(1e-30, 1e30)
NOT_NEGATIVE = st.one_of(st.just(0.0), POSITIVE)
SHARES = st.floats(0, 1)
OPEN_SHARES = st.floats(1e-30, 1, exclude_max=True)
FADING = st.one_of(st.sampled_from(["none", "rician", "rayleigh", "sionna:tdl-d", "sionna:umi"]))


@st.composite
def networks(draw):
    count = draw(st.integers(1, 5))

    def each(values):
        return draw(st.one_of(values, st.lists(values, min_size=count, max_size=count)))

    fading = draw(FADING)
    return Network(
        devices=Devices(
            count=count,
            weight=draw(st.one_of(st.none(), NOT_NEGATIVE, st.lists(NOT_NEGATIVE, min_size=count, max_size=count))),
            clip_norm=each(POSITIVE),
            noise_std=each(NOT_NEGATIVE),
            participation=each(SHARES),
            power_dbm=each(FINITE),
            epsilon=draw(st.one_of(st.none(), POSITIVE, st.lists(POSITIVE, min_size=count, max_size=count))),
        ),
        channel=Channel(
            fading=fading,
            k_factor_db=draw(FINITE) if fading == "rician" else Channel.k_factor_db,
            noise_std=draw(NOT_NEGATIVE),
            access=draw(st.sampled_from(["superposed", "orthogonal"])),
            power_rule=draw(st.sampled_from(["truncate", "backoff", "paper"])),
            gamma=draw(st.one_of(st.just("auto"), POSITIVE)),
            outage=draw(OPEN_SHARES),
            csi_error_std=draw(NOT_NEGATIVE),
            phase_error_std=draw(NOT_NEGATIVE),
            redrawn=draw(st.booleans()),
            antennas=draw(st.integers(1, 9)),
        ),
        scheme=named_scheme(
            name=draw(st.sampled_from(["1", "2.1", "2.2"])),
            score=draw(st.sampled_from(["shannon", "min"])),
            score_rule=draw(st.sampled_from(["clip", "scale"])),
            score_bound=draw(POSITIVE),
            score_noise_std=draw(NOT_NEGATIVE),
            threshold=draw(FINITE),
            num_selected=draw(st.integers(1, count)),
        ),
        adversary=Adversary(draw(st.integers(0, 9)), draw(st.booleans())),
        dimension=draw(st.integers(1, 10**6)),
        delta=draw(OPEN_SHARES),
        neighbours=draw(st.sampled_from(["zero-out", "replace", "remove"])),
        cover_noise=draw(st.booleans()),
        colluders=draw(st.integers(0, count - 1)),
        dropouts=draw(st.integers(0, count - 1)),
        inferences=draw(st.integers(1, 10**9)),
    )


@given(networks())
def test_a_network_survives_being_written_and_read_without_loss(network):
    assert parse(dump(network)) == network


def test_a_network_survives_the_disk(tmp_path):
    network = Network.uniform(num_devices=3, noise_std=0.1 + 0.2, delta=1e-7, cover_noise=True)
    write(network, tmp_path / "net.toml")
    assert read(tmp_path / "net.toml") == network
    assert read(str(tmp_path / "net.toml")) == network


SINCE_2 = {"redrawn", "antennas", "adversary", "slots"}


def test_every_key_of_the_specification_is_understood():
    network = parse(EXAMPLE)
    assert network == Network(devices=Devices(count=12, weight=0.0833333, epsilon=2.0))
    known = {f.name for table in (Network, Devices, Channel, Threshold, Ranking) for f in fields(table)}
    written = {line.split("=")[0].strip() for line in EXAMPLE.splitlines() if "=" in line}
    assert written - {"version"} == (known | {"name"}) - {"devices", "channel", "scheme", "path_loss_db"} - SINCE_2


def test_what_is_left_out_has_its_default():
    assert parse("version = 1\n[devices]\ncount = 7") == Network(devices=Devices(count=7))


def test_a_list_gives_one_value_each_and_whole_numbers_are_numbers():
    network = parse("version = 1\n[devices]\ncount = 2\nnoise_std = [1, 0.2]\nclip_norm = 3")
    assert network.devices.noise_std == (1.0, 0.2)
    assert network.devices.clip_norm == (3.0, 3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 1\n[devices]\ncount = 2\ncolour = 1", r"unknown key devices\.colour; known are count, weight"),
        ("version = 1\ncolour = 1\n[devices]\ncount = 2", "unknown key colour; known are dimension, delta"),
        ("version = 1\n[devices]\ncount = 2\n[chanel]\ngamma = 1", "unknown key chanel; known are"),
        ("version = 1\n[devices]\ncount = 2\n[scheme]\nthreshhold = 1", r"unknown key scheme\.threshhold"),
        ("version = 3\n[devices]\ncount = 2", "version=3 is not known here; this airpool reads versions 1 to 2"),
        ('version = "1"\n[devices]\ncount = 2', "version='1' is not known here"),
        ("version = true\n[devices]\ncount = 2", "version=True is not known here"),
        ("[devices]\ncount = 2", "the key version is missing; write version = 2"),
        ("version = 1", r"the table \[devices\] is missing"),
        ("version = 1\n[devices]\nweight = 1", r"devices\.count is missing"),
        ("version = 1\ndevices = 3", r"devices must be a table, \[devices\]"),
        ("version = 1\n[devices]\ncount = 0", r"devices\.count=0 must be a whole number >= 1"),
        ("version = 1\n[devices]\ncount = 2\nnoise_std = nan", r"devices\.noise_std=nan must be >= 0 and finite"),
        ("version = 1\n[devices]\ncount = 2\nnoise_std = -1", r"devices\.noise_std=-1 must be >= 0 and finite"),
        ("version = 1\n[devices]\ncount = 2\nnoise_std = [0.1]", "has 1 values for 2 devices"),
        ("version = 1\n[devices]\ncount = 2\nnoise_std = true", r"devices\.noise_std=True must be a number"),
        (
            "version = 1\n[devices]\ncount = 2\nparticipation = 1.01",
            r"devices\.participation=1\.01 must be between 0 and 1",
        ),
        ("version = 1\ndelta = 1.0\n[devices]\ncount = 2", r"delta=1\.0 must be > 0 and < 1"),
        ("version = 1\ndelta = 0\n[devices]\ncount = 2", "delta=0 must be > 0 and < 1"),
        ("this is not toml", "not valid TOML: "),
        ("a = " + "[" * 30_000, "not valid TOML: "),
        ("version = 1" + "0" * 5000, "not valid TOML: "),
        ("", "the key version is missing"),
    ],
)
def test_every_mistake_is_one_line_that_names_field_and_value(text, message, tmp_path):
    with pytest.raises(NetworkError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(NetworkError, match=rf"net\.toml: .*{message}") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(NetworkError, match=r"cannot read the network file .*missing\.toml"):
        read(tmp_path / "missing.toml")
    with pytest.raises(NetworkError, match="cannot read the network file"):
        read(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(NetworkError, match="cannot read the network file"):
        read(tmp_path / "binary.toml")


def test_infinity_has_no_place_in_a_network():
    with pytest.raises(NetworkError, match=r"devices\.clip_norm=inf must be > 0 and finite"):
        parse("version = 1\n[devices]\ncount = 2\nclip_norm = inf")


def test_path_loss_is_optional_and_survives_the_disk():
    network = Network(devices=Devices(count=2, path_loss_db=(0.0, 20.0)))
    assert "path_loss_db = [0.0, 20.0]" in dump(network)
    assert parse(dump(network)) == network
    assert "path_loss_db" not in dump(Network.uniform(num_devices=2))


@pytest.mark.parametrize("error", ["csi_error_std", "phase_error_std"])
def test_version_1_is_refused_where_channels_are_not_known_exactly(error):
    """It meant one number in each use of the channel, which costs more than two."""
    text = "version = {}\n[devices]\ncount = 2\n[channel]\n{} = {}"
    with pytest.raises(NetworkError, match="write version = 2"):
        parse(text.format(1, error, 0.1))
    assert not parse(text.format(2, error, 0.1)).channel.known
    assert parse(text.format(1, error, 0)) == parse(text.format(2, error, 0)) == Network(devices=Devices(count=2))


@pytest.mark.parametrize("key", ["redrawn = false", "antennas = 2"])
def test_keys_of_version_2_are_unknown_to_version_1(key):
    text = f"[devices]\ncount = 2\n[channel]\n{key}"
    assert parse(f"version = 2\n{text}") != parse("version = 2\n[devices]\ncount = 2")
    with pytest.raises(NetworkError, match=r"unknown key channel\."):
        parse(f"version = 1\n{text}")


def test_an_adversary_is_written_where_there_is_one():
    assert "adversary" not in dump(Network.uniform(num_devices=2))
    network = parse("version = 2\n[devices]\ncount = 2\n[adversary]\nantennas = 3")
    assert network.adversary.antennas == 3
    assert parse(dump(network)) == network
    with pytest.raises(NetworkError, match="unknown key adversary"):
        parse("version = 1\n[devices]\ncount = 2\n[adversary]\nantennas = 3")
