"""Accuracy with error bars, on latents whose accuracy is known."""

import json
import pickle
import sys
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.stats import norm
from typer.testing import CliRunner

from airpool import Channel, Claim, Coin, Network, Ranking, Threshold, calibrate, guarantee
from airpool.cli import app, main
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects, of_latents
from airpool.models.latents import Latents, read, read_views
from airpool.network import Devices, Neighbours
from airpool.protocol.inference import Baseline, Simulation, infer_features
from airpool.protocol.simulation import receive
from airpool_lab.waveform.frame import Frame
from airpool_lab.waveform.reception import Waveform
from airpool_lab.waveform.uplink import Impairments

RUN = CliRunner()


def two_classes(count=400, *, devices=3, dimension=4):
    """Objects that all devices see right: along the first axis, one way or the other."""
    labels = torch.arange(count) % 2
    latents = torch.zeros(count, devices, dimension)
    latents[:, :, 0] = (2 * labels[:, None] - 1).float()
    return latents, labels


def by_sign(_level):
    return lambda estimate: torch.stack((-estimate[..., 0], estimate[..., 0]), -1)


def network(noise_std=0.5, **changes):
    return Network.uniform(num_devices=3, dimension=4, noise_std=noise_std, **changes)


def test_accuracy_is_what_the_noise_allows():
    latents, labels = two_classes()
    found = evaluate(EncodedObjects(latents, labels, by_sign), network(), trials=50)
    truth = norm.cdf(1 / (0.5 * 3**0.5))  # a mean of 1 against a sum of three noises of 0.5
    assert found.accuracy_mean == pytest.approx(truth, abs=4 * (truth * (1 - truth) / 20_000) ** 0.5)
    assert found.class_mean == pytest.approx(truth, abs=0.02)
    assert found.accuracy_std == pytest.approx((truth * (1 - truth) / 400) ** 0.5, rel=0.4)
    assert found.mse == pytest.approx(4 * 3 * 0.25, rel=0.05)
    assert found.no_answer == 0
    assert found.channel_uses == 2


def plain_loop_of_the_papers_rule(network, *, objects, gamma, seed=1):
    """Answers right, alignments (n, K) and powers (n, K): device by device, with the paper's own α_k."""
    rng, d = np.random.default_rng(seed), network.devices
    right, alignments, powers = [], [], []
    for number in range(objects):
        truth = 2 * (number % 2) - 1
        y, on_the_air, alignment, power = np.zeros(network.dimension), False, [], []
        for k in range(d.count):
            h = abs(complex(*rng.standard_normal(2))) / 2**0.5  # Rayleigh, E h² = 1
            p, w, limit = d.participation[k], d.weight[k], 10 ** (d.power_dbm[k] / 10)
            n = d.noise_std[k] * rng.standard_normal(network.dimension)
            alpha = p * min(gamma / h, (limit / (w**2 * d.clip_norm[k] ** 2 + n @ n)) ** 0.5)
            z = truth * np.eye(network.dimension)[0]
            takes_part = rng.random() < p
            x = alpha / p * (w * z + n) if takes_part else 0 * n
            y, on_the_air = y + h * x, on_the_air or takes_part
            alignment.append(h * alpha / (p * gamma) if takes_part else 0.0)
            power.append(x @ x)
        y += network.channel.noise_std * rng.standard_normal(network.dimension)
        right.append(on_the_air and (y[0] > 0) == (truth > 0))
        alignments.append(alignment)
        powers.append(power)
    return np.array(right), np.array(alignments), np.array(powers)


def test_the_papers_power_rule_over_fading_is_a_plain_loop_of_its_own():
    latents, labels = two_classes()
    devices = Devices(3, noise_std=(0.3, 0.5, 0.4), participation=(0.9, 0.6, 1.0), power_dbm=(0.0, 3.0, -3.0))
    channel = Channel(fading="rayleigh", power_rule="paper", gamma=1.0, noise_std=0.2)
    net, objects = Network(devices, channel, dimension=4), EncodedObjects(latents, labels, by_sign)
    found = evaluate(objects, net, trials=50)
    right, alignment, power = plain_loop_of_the_papers_rule(net, objects=8000, gamma=1.0)
    got = receive(latents.double().numpy(), net, rng=np.random.default_rng(2), trials=50)

    def same(mine, theirs):
        error = np.hypot(mine.std(axis=0) / len(mine) ** 0.5, theirs.std(axis=0) / len(theirs) ** 0.5)
        assert np.all(np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) <= 4.5 * error)

    ours, theirs = got.alignment.reshape(-1, 3), alignment
    assert 0.3 < np.mean(theirs[theirs > 0] < 1 - 1e-6) < 0.9
    for each in (lambda x: x, np.square, lambda x: x > 1 - 1e-6, lambda x: (x > 0) & (x < 0.5)):
        same(each(ours).astype(float), each(theirs).astype(float))
    same(got.power.reshape(-1, 3), power)
    assert found.accuracy_mean == pytest.approx(right.mean(), abs=4.5 * right.std() * (1 / 8000 + 1 / 20_000) ** 0.5)
    assert found.energy == pytest.approx(power.sum(1).mean(), abs=6 * power.sum(1).std() / 8000**0.5)
    # Power limits, and tells a feature from none: no ε, and the reason is in the report.
    assert np.isinf(found.report.epsilon).all()
    assert "at the power limit" in found.report.reasons["epsilon"]
    # Where it never does, the rule is that of signals that all arrive aligned.
    quiet = replace(net, channel=replace(channel, fading="none", gamma=0.1))
    aligned = replace(quiet, channel=replace(quiet.channel, power_rule="truncate"))
    assert evaluate(objects, quiet, trials=1).report.worst == pytest.approx(guarantee(aligned).worst, rel=1e-6)


@pytest.mark.parametrize("baseline", get_args(Baseline))
def test_the_papers_power_rule_runs_under_every_baseline(baseline):
    latents, labels = two_classes(40)
    channel = Channel(fading="rayleigh", power_rule="paper")
    objects = EncodedObjects(latents, labels, by_sign)
    found = evaluate(objects, network(noise_std=0.1, channel=channel), trials=2, instead=baseline)
    assert 0.5 < found.accuracy_mean <= 1
    assert np.isinf(found.report.worst)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    latents, labels = two_classes(100)
    truth = norm.cdf(1 / (0.5 * 3**0.5))
    known = guarantee(network())  # the same each time
    found = [
        evaluate(EncodedObjects(latents, labels, by_sign), network(), trials=1, seed=seed, report=known)
        for seed in range(200)
    ]
    covered = [low <= truth <= high for low, high in (each.accuracy_ci for each in found)]
    assert 0.88 < np.mean(covered) < 0.99


@pytest.mark.parametrize("path", ["fast", "full"])
def test_evaluations_and_inferences_can_be_stored(path):
    latents, labels = two_classes(10)
    found = evaluate(EncodedObjects(latents, labels, by_sign), network(), trials=2)
    assert pickle.loads(pickle.dumps(found)).record() == found.record()
    how = Simulation(trials=2, path=path)
    for each in (latents, latents.numpy()):
        rng = torch.Generator().manual_seed(0) if isinstance(each, torch.Tensor) else np.random.default_rng(0)
        out = infer_features(
            each, network(), server=np.eye(4) if each is not latents else torch.eye(4), rng=rng, simulation=how
        )
        back = pickle.loads(pickle.dumps(out))
        np.testing.assert_array_equal(back.received.power, out.received.power)
        np.testing.assert_array_equal(back.label, out.label)
        assert back.report.over(2).worst == out.report.over(2).worst


def test_the_same_seed_gives_the_same_record_and_another_does_not():
    latents, labels = two_classes()
    first, again, other = (
        evaluate(EncodedObjects(latents, labels, by_sign), network(), trials=3, seed=seed).record()
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first["accuracy_mean"] != other["accuracy_mean"]


def test_memory_batches_do_not_lose_or_repeat_an_object(monkeypatch):
    latents, labels = two_classes(50)
    told = []
    monkeypatch.setattr(sys.modules["airpool.evaluation.evaluate"], "_BATCH", 4 * 7)
    found = evaluate(EncodedObjects(latents, labels, by_sign), network(1e-6), trials=5, on_inferences=told.append)
    assert found.accuracy_mean == 1.0
    assert sum(told) == 250
    assert found.accuracy_ci[0] < 1  # so many objects prove no more


def test_silence_counts_as_wrong():
    latents, labels = two_classes(2000)
    found = evaluate(EncodedObjects(latents, labels, by_sign), network(1e-6, participation=0.5), trials=5)
    assert found.no_answer == pytest.approx(0.125, abs=0.02)
    assert found.accuracy_mean == pytest.approx(1 - found.no_answer)


@pytest.mark.parametrize("baseline", get_args(Baseline))
def test_baselines_say_what_they_cost(baseline):
    latents, labels = two_classes()
    net = network(0.5, channel=Channel(fading="rician", noise_std=0.3))
    plain = evaluate(EncodedObjects(latents, labels, by_sign), net, trials=5)
    found = evaluate(EncodedObjects(latents, labels, by_sign), net, trials=5, instead=baseline)
    assert found.record()["baseline"] == baseline
    match baseline:
        case "orthogonal":
            assert found.channel_uses == 3 * plain.channel_uses
            assert found.report.worst > plain.report.worst
        case "best-device":
            assert found.channel_uses == plain.channel_uses
            assert found.report.worst > plain.report.worst
        case "centralised":
            assert found.accuracy_mean == 1
            assert found.record()["epsilon"] == ["inf"] * 3
        case _:
            raise AssertionError(baseline)


@pytest.mark.parametrize(
    ("radio", "changes", "claim", "epsilon"),
    [
        (Waveform(), {}, Claim(), 1.0),
        (Waveform(Frame(guard=4)), {}, Claim(), 1.0),
        (Waveform(impairments=Impairments(timing=1)), {}, Claim(), 4.018),
        (Waveform(Frame(guard=4), Impairments(timing=1)), {}, Claim(), 4.018),
        (Waveform(impairments=Impairments(carrier_std=1e-3)), {}, Claim(), 4.018),
        (Waveform(impairments=Impairments(limit=9.0)), {}, Claim(), 4.018),
        (Waveform(Frame(guard=4)), {"participation": 0.5}, Claim(neighbours=Neighbours.REMOVE), np.inf),
        (Waveform(Frame(guard=0)), {"channel": Channel(gamma=3.0)}, Claim(), 1.0),
    ],
)
def test_over_a_waveform_the_report_is_that_of_its_samples(radio, changes, claim, epsilon):
    latents, labels = two_classes(4, devices=12, dimension=40)
    twelve = Network.uniform(num_devices=12, dimension=40, noise_std=0.08975, **changes)
    found = evaluate(EncodedObjects(latents, labels, by_sign), twelve, claim, trials=1, instead=radio)
    assert found.report.worst == pytest.approx(epsilon, abs=1e-3)
    assert (found.report.network, found.report.claim) == (twelve, claim)
    assert found.record()["access"] == "superposed"
    exact = found.report.epsilon_lower is not None
    assert exact == (radio.impairments == Impairments() and epsilon < np.inf)
    assert exact or "keeps every sample" in found.report.assumptions[0]
    with pytest.raises(ValueError, match="report is that of symbols"):
        evaluate(EncodedObjects(latents, labels, by_sign), twelve, instead=radio, report=guarantee(twelve))


def test_the_record_carries_what_a_reader_needs():
    latents, labels = two_classes(20)
    net = calibrate(network(), epsilon=2.0)
    record = evaluate(EncodedObjects(latents, labels, by_sign), net, trials=2).record()
    assert json.loads(json.dumps(record)) == record
    wanted = "scheme accuracy_mean accuracy_std accuracy_ci epsilon epsilon_local epsilon_object neighbours"
    assert set(wanted.split()) | {"epsilon_paper", "trials", "objects", "seed", "version"} <= record.keys()
    assert record["epsilon"] == guarantee(net).epsilon.tolist()
    assert len(record["epsilon"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trials": 0}, "trials=0 must be >= 1"),
        ({"instead": "none"}, "baseline='none' must be"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(change, message):
    latents, labels = two_classes(4)
    with pytest.raises(ValueError, match=message):
        evaluate(EncodedObjects(latents, labels, by_sign), network(), **change)


def test_labels_must_belong_to_the_latents():
    latents, labels = two_classes(4)
    with pytest.raises(ValueError, match=r"labels has shape \(3,\), must be \(4,\)"):
        evaluate(EncodedObjects(latents, labels[:3], by_sign), network())


# Files


@pytest.fixture
def own_file(tmp_path):
    latents, labels = two_classes(60)
    classifier = torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    path = tmp_path / "mine.safetensors"
    save_file({"latents": latents, "labels": labels, "classifier": classifier}, path)
    return path


def test_own_latents_go_from_a_file_to_a_record(own_file):
    done = RUN.invoke(app, ["evaluate", "--latents", str(own_file), "--epsilon", "10", "--trials", "3", "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["accuracy_mean"] == 1.0
    assert max(record["epsilon"]) <= 10
    assert record["objects"] == 60


def test_own_latents_with_posteriors_are_one_call_and_stand_beside_the_vote():
    latents, labels = two_classes(40)
    sure = torch.nn.functional.one_hot(labels, 2)[:, None].expand(-1, 3, -1).float()
    objects, net = Latents(latents, labels, posteriors=sure), network(0.05)
    found = evaluate(of_latents(objects, net, by_sign), net, trials=2)
    assert found.accuracy_mean == found.vote_accuracy == 1.0
    scored = replace(net, scheme=Threshold())
    assert of_latents(objects, scored, by_sign, participation=0.5).posteriors is sure
    with pytest.raises(ValueError, match=r"scheme 2.1 chooses by scores: a file of latents must hold posteriors"):
        of_latents(Latents(latents, labels), scored, by_sign)
    with pytest.raises(ValueError, match=r"needs --participation"):
        of_latents(objects, scored, by_sign)


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_the_record_is_written_as_a_table_with_seed_and_version(own_file, tmp_path, ending):
    table = tmp_path / f"table{ending}"
    arguments = ["--latents", str(own_file), "--trials", "2", "--baseline", "centralised", "--out", str(table)]
    done = RUN.invoke(app, ["evaluate", *arguments])
    assert done.exit_code == 0, done.output
    text = table.read_text("utf-8")
    assert "airpool evaluate" in text
    assert "accuracy_mean" in text
    assert "inf" in text.lower()


def test_a_table_of_no_known_kind_is_refused_before_the_work(own_file, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["airpool", "evaluate", "--latents", str(own_file), "--out", "table.xls"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "must end in .csv, .json, .parquet" in capsys.readouterr().err


def with_posteriors(path, *, num_classes=2):
    latents, labels = two_classes(60)
    sure = torch.full((60, 3, num_classes), 0.1 / num_classes)
    sure[..., :2] += 0.9 * torch.nn.functional.one_hot(labels, 2)[:, None]
    classifier = torch.tensor([[-1.0, 0, 0, 0], [1.0, 0, 0, 0]])
    save_file({"latents": latents, "labels": labels, "classifier": classifier, "posteriors": sure}, path)
    return ["evaluate", "--latents", str(path), "--epsilon", "1", "--trials", "5"]


def test_own_latents_with_posteriors_stand_beside_the_vote_that_needs_no_fit(own_file, tmp_path):
    command = with_posteriors(tmp_path / "voters.safetensors")
    record = json.loads(RUN.invoke(app, [*command, "--json"], catch_exceptions=False).stdout)
    assert record["against_vote"] == pytest.approx(record["accuracy_mean"] - record["vote_accuracy"], abs=1e-12)
    assert record["against_vote_error"] > 0
    line = f"{record['vote_accuracy']:.4f} on the same noise; difference {record['against_vote']:+.4f}, standard error "
    assert line in " ".join(RUN.invoke(app, command).stdout.split())  # a narrow terminal breaks lines
    without = ["evaluate", "--latents", str(own_file), "--epsilon", "1", "--trials", "1"]
    assert "vote" not in RUN.invoke(app, without).stdout
    record = json.loads(RUN.invoke(app, [*without, "--json"]).stdout)
    assert record["vote_accuracy"] is record["against_vote"] is None


def test_the_vote_is_evaluated_as_any_codec_and_stands_beside_the_others(tmp_path):
    shipped = ["evaluate", "--epsilon", "1", "--trials", "2", "--split", "validation"]
    table = tmp_path / "table.csv"
    alone, beside = (
        json.loads(RUN.invoke(app, [*shipped, *more, "--json"], catch_exceptions=False).stdout)
        for more in ([], ["--codec", "compact", "--out", str(table)])
    )
    assert (alone["codec"], alone["vote_accuracy"]) == ("vote", None)
    assert beside["vote_accuracy"] == alone["accuracy_mean"]
    assert alone["epsilon"] == beside["epsilon"]
    assert {"vote_accuracy", "against_vote", "against_vote_error"} <= set(
        table.read_text("utf-8").split("\n")[1].split(",")
    )


def test_a_vote_of_ones_own_decodes_ones_own_latents(tmp_path):
    from airpool.models.codecs import codec as codecs
    from airpool.models.codecs import vote

    command = with_posteriors(tmp_path / "voters.safetensors", num_classes=3)
    objects = read(tmp_path / "voters.safetensors")
    assert objects.posteriors is not None
    fitted, latents = vote.fit(objects.posteriors, objects.labels), tmp_path / "votes.safetensors"
    codecs.save(tmp_path / "vote.safetensors", fitted, {})
    save_file({"latents": fitted.encoder(objects.posteriors), "labels": objects.labels}, latents)
    command[2] = str(latents)
    done = RUN.invoke(app, [*command, "--codec", str(tmp_path / "vote.safetensors"), "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["accuracy_mean"] > 0.6


def test_a_sweep_carries_the_vote_beside_its_codec():
    from airpool.evaluation.settings import evaluate as point

    beside, alone = (point(seed=0, codec=codec, split="validation", trials=1) for codec in ("compact", "vote"))
    assert beside["vote_accuracy"] == alone["accuracy_mean"]
    assert beside["against_vote"] == pytest.approx(beside["accuracy_mean"] - alone["accuracy_mean"], abs=1e-12)
    assert "vote_accuracy" not in alone


def test_people_get_a_table(own_file):
    done = RUN.invoke(app, ["evaluate", "--latents", str(own_file), "--epsilon", "10", "--trials", "3"])
    assert done.exit_code == 0, done.output
    assert "accuracy" in done.stdout
    assert "ε of the worst device 10.000" in " ".join(done.stdout.split())


def test_latents_as_bytes_are_read_with_their_step(tmp_path):
    latents, labels = two_classes(6)
    path = tmp_path / "bytes.safetensors"
    save_file({"latents": (latents * 100).to(torch.int8), "labels": labels, "step": torch.tensor([0.01])}, path)
    assert torch.allclose(read(path).latents, latents)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "labels missing; there is latents"),
        ({"latents": torch.zeros(3, 2, 4, dtype=torch.int8)}, "step, the size of a step"),
        ({"latents": torch.zeros(3, 8)}, r"must be float \(N, K, r\)"),
        ({"labels": torch.zeros(2, dtype=torch.int64)}, r"labels has shape \(2,\)"),
        ({"labels": torch.zeros(3)}, "must be whole numbers"),
        ({"labels": torch.tensor([0, -1, 0])}, "labels has -1"),
        ({"classifier": torch.zeros(1, 5)}, r"classifier has shape \(1, 5\), must be \(C, 4\) with C ≥ 1"),
        ({"classifier": torch.zeros(2, 4), "bias": torch.zeros(3)}, r"bias has shape \(3,\)"),
    ],
)
def test_a_file_of_latents_that_is_not_one_says_why(tmp_path, change, message):
    tensors = {"latents": torch.zeros(3, 2, 4), "labels": torch.zeros(3, dtype=torch.int64)} | change
    path = tmp_path / "odd.safetensors"
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_a_damaged_or_missing_file_is_a_clear_error(tmp_path):
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(b"not one")
    with pytest.raises(ValueError, match="damaged, or no safetensors file"):
        read(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_views(tmp_path / "none.safetensors")


def test_latents_without_a_classifier_need_a_codec():
    latents, labels = two_classes(4)
    with pytest.raises(ValueError, match="without a classifier"):
        Latents(latents, labels).decoder(latents)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--accounting", "guess"], "--accounting 'guess' must be exact or theorem1"),
        (["--codec", "huge"], "--codec huge must be one of vote, compact, q16, vote-vgg11"),
        (["--split", "train"], "--split train must be test or validation"),
        (["--latents", "a", "--views", "b"], "not both"),
        (["--network", "no.toml"], "no.toml"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["airpool", "evaluate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_a_network_of_another_size_is_refused(own_file, tmp_path, capsys, monkeypatch):
    from airpool import write_network

    write_network(replace(network(), dimension=9), tmp_path / "net.toml")
    arguments = ["--latents", str(own_file), "--network", str(tmp_path / "net.toml")]
    monkeypatch.setattr("sys.argv", ["airpool", "evaluate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "has dimension 9" in capsys.readouterr().err


def test_raw_views_go_through_the_shipped_trunk_and_codec(tmp_path):
    from airpool import load
    from airpool.models.vision import shapes
    from airpool.models.vision.views import views as views_of

    classes = load("modelnet40").classes
    chosen = [next(s for s in shapes.all() if s.label == label) for label in ("airplane", "bottle")]
    views = views_of([(s.vertices, s.faces) for s in chosen], dtype=torch.uint8)
    path = tmp_path / "views.safetensors"
    save_file({"views": views, "labels": torch.tensor([classes.index(s.label) for s in chosen])}, path)
    done = RUN.invoke(app, ["evaluate", "--views", str(path), "--epsilon", "10", "--trials", "5", "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["objects"] == 2
    assert record["accuracy_mean"] == 1.0
    save_file({"views": views[:, :3].contiguous(), "labels": torch.tensor([0, 1])}, path)
    for options in ((), ("--codec", "compact"), ("--scheme", "2.1")):
        done = RUN.invoke(app, ["evaluate", "--views", str(path), "--trials", "5", "--json", *options])
        assert len(json.loads(done.stdout)["epsilon"]) == 3
    save_file({"views": views.float(), "labels": torch.zeros(2, dtype=torch.int64)}, path)
    with pytest.raises(ValueError, match=r"must be uint8 \(N, K, 2, H, H\)"):
        read_views(path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_the_cpu_within_the_interval():
    latents, labels = two_classes()
    here = evaluate(EncodedObjects(latents, labels, by_sign), network(), trials=20)
    there = evaluate(EncodedObjects(latents.cuda(), labels.cuda(), by_sign), network(), trials=20)
    low, high = here.accuracy_ci
    assert low <= there.accuracy_mean <= high


@pytest.mark.parametrize("scheme", [Coin(), Threshold(), Ranking(num_selected=1)], ids=lambda s: s.name)
@pytest.mark.parametrize(("count", "note"), [(1, "used: 0;"), (5, "used: 0, 2, 4, 7, 9;"), (25, "from device 12 on")])
def test_a_network_of_any_number_of_devices_is_evaluated_on_what_ships(scheme, count, note, tmp_path):
    from airpool import write_network

    path = tmp_path / "net.toml"
    write_network(Network.uniform(num_devices=count, dimension=40, noise_std=0.02, scheme=scheme), path)
    arguments = ["evaluate", "--network", str(path), "--split", "validation", "--trials", "1"]
    done = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    record = json.loads(done.stdout)
    assert len(record["epsilon"]) == count
    assert note in record["cameras"]
    assert record["cameras"] in RUN.invoke(app, arguments).stdout


@pytest.mark.parametrize("count", [3, 13, 12])
def test_a_sweep_over_the_number_of_devices_says_which_cameras_they_use(count):
    from airpool.evaluation.settings import evaluate as point

    found = point(seed=0, devices=count, split="validation", trials=1)
    assert found["epsilon_device"] == pytest.approx(2.0)
    assert ("cameras" in found) == (count != 12)


def test_shipped_latents_at_the_papers_accounting():
    arguments = ["--codec", "q16", "--epsilon", "10", "--accounting", "theorem1", "--participation", "0.9"]
    done = RUN.invoke(app, ["evaluate", *arguments, "--trials", "1", "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert max(record["epsilon_paper"]) == pytest.approx(10)
    assert record["accuracy_mean"] > 0.85


def test_centralised_drops_the_scheme_and_reports_no_privacy():
    devices, scheme = 3, Threshold(threshold=-1.0, score_noise_std=0.4)
    net = Network.uniform(num_devices=devices, noise_std=0.5, dimension=4, scheme=scheme)
    latents, labels = two_classes(10)
    found = evaluate(
        EncodedObjects(latents, labels, by_sign, posteriors=torch.full((10, devices, 2), 0.5)),
        net,
        trials=2,
        instead="centralised",
    )
    assert np.isinf(found.report.epsilon).all()
    assert isinstance(found.report.network.scheme, Coin)
