"""The network file: read and written without loss, every key of the specification, every mistake in one line."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airpool.network import (
    Adversary,
    Channel,
    Claim,
    Devices,
    Network,
    NetworkError,
    Ranking,
    Threshold,
    named_scheme,
)
from airpool.network.file import dump, parse, parse_claim, read, read_claim, write

EXAMPLE = """
version = 3
dimension = 64               # r
cover_noise = false
colluders = 0
dropouts = 0

[claim]
delta = 1e-5
neighbours = "zero-out"      # zero-out | replace | remove
inferences = 1
colluding = []               # devices known to collude
credit_channel_noise = false
live = false
per_event = 60               # optional
knows_answer = true

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
        adversary=Adversary(draw(st.integers(0, 9))),
        dimension=draw(st.integers(1, 10**6)),
        cover_noise=draw(st.booleans()),
        colluders=draw(st.integers(0, count - 1)),
        dropouts=draw(st.integers(0, count - 1)),
    )


CLAIMS = st.builds(
    Claim,
    delta=OPEN_SHARES,
    neighbours=st.sampled_from(["zero-out", "replace", "remove"]),
    inferences=st.integers(1, 10**9),
    colluding=st.lists(st.integers(0, 9)),
    credit_channel_noise=st.booleans(),
    live=st.booleans(),
    per_event=st.none() | st.integers(1, 10**9),
    knows_answer=st.booleans(),
)


@given(networks(), CLAIMS)
def test_a_network_and_its_claim_survive_being_written_and_read_without_loss(network, claim):
    text = dump(network, claim)
    assert (parse(text), parse_claim(text)) == (network, claim)
    assert parse(dump(network)) == network


def test_a_network_and_its_claim_survive_the_disk(tmp_path):
    network = Network.uniform(num_devices=3, noise_std=0.1 + 0.2, cover_noise=True)
    claim = Claim(delta=1e-7, neighbours="replace", colluding=[1, 1], live=True)
    write(network, tmp_path / "net.toml", claim)
    for path in (tmp_path / "net.toml", str(tmp_path / "net.toml")):
        assert (read(path), read_claim(path)) == (network, claim)


def test_the_text_of_a_network_is_the_same_whatever_is_claimed_of_it():
    network = Network.uniform(num_devices=3)
    text = dump(network)
    assert "claim" not in text
    assert parse_claim(text) == Claim()
    top, _, rest = dump(network, Claim(colluding=[2])).partition("[claim]\n")
    assert rest.startswith('delta = 1e-05\nneighbours = "zero-out"\ninferences = 1\ncolluding = [2]\n\n[devices]')
    assert top + rest[rest.index("[devices]") :] == text


NOT_SHOWN = {"redrawn", "antennas", "adversary", "slots"}


def test_every_key_of_the_specification_is_understood():
    network = parse(EXAMPLE)
    assert network == Network(devices=Devices(count=12, weight=0.0833333, epsilon=2.0))
    assert parse_claim(EXAMPLE) == Claim(per_event=60)
    known = {f.name for table in (Network, Claim, Devices, Channel, Threshold, Ranking) for f in fields(table)}
    written = {line.split("=")[0].strip() for line in EXAMPLE.splitlines() if "=" in line}
    assert written - {"version"} == (known | {"name"}) - {"devices", "channel", "scheme", "path_loss_db"} - NOT_SHOWN


def test_what_is_left_out_has_its_default():
    assert parse("version = 3\n[devices]\ncount = 7") == Network(devices=Devices(count=7))


def test_a_list_gives_one_value_each_and_whole_numbers_are_numbers():
    network = parse("version = 3\n[devices]\ncount = 2\nnoise_std = [1, 0.2]\nclip_norm = 3")
    assert network.devices.noise_std == (1.0, 0.2)
    assert network.devices.clip_norm == (3.0, 3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 3\n[devices]\ncount = 2\ncolour = 1", r"unknown key devices\.colour; known are count, weight"),
        ("version = 3\ncolour = 1\n[devices]\ncount = 2", "unknown key colour; known are dimension, cover_noise"),
        ("version = 3\n[devices]\ncount = 2\n[chanel]\ngamma = 1", "unknown key chanel; known are"),
        ("version = 3\n[devices]\ncount = 2\n[scheme]\nthreshhold = 1", r"unknown key scheme\.threshhold"),
        ("version = 1\n[devices]\ncount = 2", "version=1 is not known here; this airpool reads version 3"),
        ("version = 4\n[devices]\ncount = 2", "version=4 is not known here; this airpool reads version 3"),
        ('version = "3"\n[devices]\ncount = 2', "version='3' is not known here"),
        ("version = true\n[devices]\ncount = 2", "version=True is not known here"),
        ("[devices]\ncount = 2", "the key version is missing; write version = 3"),
        ("version = 3", r"the table \[devices\] is missing"),
        ("version = 3\n[devices]\nweight = 1", r"devices\.count is missing"),
        ("version = 3\ndevices = 3", r"devices must be a table, \[devices\]"),
        ("version = 3\n[devices]\ncount = 0", r"devices\.count=0 must be a whole number >= 1"),
        ("version = 3\n[devices]\ncount = 2\nnoise_std = nan", r"devices\.noise_std=nan must be >= 0 and finite"),
        ("version = 3\n[devices]\ncount = 2\nnoise_std = -1", r"devices\.noise_std=-1 must be >= 0 and finite"),
        ("version = 3\n[devices]\ncount = 2\nnoise_std = [0.1]", "has 1 values for 2 devices"),
        ("version = 3\n[devices]\ncount = 2\nnoise_std = true", r"devices\.noise_std=True must be a number"),
        (
            "version = 3\n[devices]\ncount = 2\nparticipation = 1.01",
            r"devices\.participation=1\.01 must be between 0 and 1",
        ),
        ("version = 3\n[claim]\ndelta = 1.0\n[devices]\ncount = 2", r"delta=1\.0 must be > 0 and < 1"),
        ("version = 3\n[claim]\ndelta = 0\n[devices]\ncount = 2", "delta=0 must be > 0 and < 1"),
        ("version = 3\n[claim]\ndelt = 1e-5\n[devices]\ncount = 2", r"unknown key claim\.delt; known are delta, neigh"),
        ("version = 3\n[claim]\ncolluding = 1\n[devices]\ncount = 2", "colluding=1 must be a list of devices"),
        ("version = 3\nclaim = 1\n[devices]\ncount = 2", r"claim must be a table, \[claim\]"),
        ("version = 3\ndelta = 1e-5\n[devices]\ncount = 2", r"unknown key delta; it belongs to the table \[claim\]"),
        (
            "version = 3\n[devices]\ncount = 2\n[adversary]\nknows_answer = true",
            r"adversary\.knows_answer; it belongs to",
        ),
        ("this is not toml", "not valid TOML: "),
        ("a = " + "[" * 30_000, "not valid TOML: "),
        ("version = 3" + "0" * 5000, "not valid TOML: "),
        ("", "the key version is missing"),
    ],
)
def test_every_mistake_is_one_line_that_names_field_and_value(text, message, tmp_path):
    with pytest.raises(NetworkError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    path = tmp_path / "net.toml"
    path.write_text(text)
    for reader in (read, read_claim):
        with pytest.raises(NetworkError, match=rf"net\.toml: .*{message}") as caught:
            reader(path)
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
        parse("version = 3\n[devices]\ncount = 2\nclip_norm = inf")


def test_path_loss_is_optional_and_survives_the_disk():
    network = Network(devices=Devices(count=2, path_loss_db=(0.0, 20.0)))
    assert "path_loss_db = [0.0, 20.0]" in dump(network)
    assert parse(dump(network)) == network
    assert "path_loss_db" not in dump(Network.uniform(num_devices=2))


def test_an_adversary_is_written_where_there_is_one():
    assert "adversary" not in dump(Network.uniform(num_devices=2))
    network = parse("version = 3\n[devices]\ncount = 2\n[adversary]\nantennas = 3")
    assert network.adversary.antennas == 3
    assert parse(dump(network)) == network
