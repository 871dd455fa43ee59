"""ETH-80 as a running system: sixteen processes that read held-out photographs as cameras, int8, beside the simulator.

    python -m studies.eth80_folder eth80_photos.npz eth80
    airpool fit --images eth80 --out eth80.safetensors
    python -m studies.eth80_running eth80
    airpool bundle --model eth80.safetensors --images eth80.csv --out eth80.zip
    python -m studies.eth80_running eth80 --photos eth80_photos.npz --out eth80-running.json

First writes eth80.csv, the photographs with the part of each object as `fit` chose it: int8 is then fitted to training
photographs, and devices show the test objects. With a seed, processes and simulator draw the same noise, so that labels
can be compared one by one; without one there are keys and ledgers.
"""

import argparse
import asyncio
import csv
import json
import tempfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

import airpool
from airpool._support.version import __version__
from airpool.evaluation.evaluate import evaluate
from airpool.evaluation.objects import EncodedObjects
from airpool.models.sensors.fitted import Fitted
from airpool.models.vision import picture
from airpool.protocol.inference import Simulation, infer_features
from airpool_runtime import bundle as bundles
from airpool_runtime import seeded, sources, up
from airpool_runtime import wire_pb2 as wire
from airpool_runtime.keys import authority
from airpool_runtime.ledger import backup
from airpool_runtime.server import codec_of
from airpool_runtime.sources import Place, source_of

SEED = 11


def write_list(folder: Path) -> Path:
    """Writes FOLDER.csv, the photographs with the parts of FOLDER-objects.csv."""
    with folder.with_name(f"{folder.name}-objects.csv").open() as file:
        part = {row["object"]: row["part"] for row in csv.DictReader(line for line in file if line[0] != "#")}
    out = folder.with_suffix(".csv")
    with out.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("file", "camera", "class", "object", "split"))
        for path in sorted(folder.glob("*/*/*.jpg")):
            camera, label = path.parts[-3], path.parts[-2]
            name = f"{label}/{path.stem}"
            rows.writerow((path.relative_to(folder.parent), camera, label, name, part[name]))
    return out


class Running:
    """A fitted model, its bundle, and its test objects in float32 (N, K, ...), in the order of the devices."""

    def __init__(self, folder: Path) -> None:
        self.name, self.list = str(folder.with_suffix(".safetensors")), write_list(folder)
        self.bundle = folder.with_suffix(".zip")
        model = airpool.load(self.name)
        assert isinstance(model, Fitted)
        self.model = model
        held = self.model.held_out("test")
        turn = sources.order(len(held.labels))
        self.latents, self.posteriors, self.labels = held.latents[turn], held.posteriors[turn], held.labels[turn]
        self.devices = self.latents.shape[1]

    @property
    def source(self) -> str:
        return f"images:{self.list}"

    def network(self, epsilon: float) -> airpool.Network:
        net = airpool.Network.uniform(num_devices=self.devices, dimension=self.latents.shape[-1])
        return airpool.calibrate(net, epsilon=epsilon)

    def photographs(self) -> dict[str, Any]:
        """Labels of each photograph, and of all of an object together without noise, in int8 and in float32."""
        bundle = bundles.read(self.bundle, threads=1)
        seen = [source_of(self.source, Place(k, self.devices), bundle=bundle)[0] for k in range(self.devices)]
        found = [[each(number) for each in seen] for number in range(len(self.labels))]
        own = np.array([[each.posterior for each in row] for row in found])
        latents = np.array([[each.latent for each in row] for row in found])
        decode = codec_of(self.name, self.network(8.0)).decode
        pooled = [np.argmax(np.apply_along_axis(decode, -1, z.mean(1)), -1) for z in (latents, self.latents.numpy())]
        alike = own.argmax(-1) == np.asarray(self.posteriors).argmax(-1)
        same = pooled[0] == pooled[1]
        return {
            "photographs": alike.size,
            "changed": int((~alike).sum()),
            "objects": len(same),
            "changed_objects": int((~same).sum()),
            "right_int8": float((own.argmax(-1) == np.asarray(self.labels)[:, None]).mean()),
        }

    def all_places(self, data: Path) -> dict[str, Any]:
        """Labels of photographs from all 41 places of objects that nothing was fitted to, in int8 and in float32.

        Holds for: one head for all cameras; a temperature changes no label.
        """
        z, bundle = np.load(data), bundles.read(self.bundle, threads=1)
        with self.list.open() as file:
            unseen = {int(Path(row["file"]).stem) for row in csv.DictReader(file) if row["split"] != "train"}
        trunk = self.model.trunk
        assert trunk is not None
        encode, labels, truth = bundle.encoder(device=0, devices=self.devices), [], []
        for number in np.flatnonzero(np.isin(z["object"], list(unseen))).tolist():
            photo = BytesIO(z["jpeg"][z["start"][number] : z["start"][number + 1]].tobytes())
            view = picture.prepared(picture.read(photo), bundle.view_shape[-1])
            features = trunk.features(torch.from_numpy(view)[None, None]).expand(1, self.devices, -1)
            float32 = self.model.seen(features)[1][0, 0]
            labels.append((int(np.asarray(encode(view).posterior).argmax()), int(float32.argmax())))
            truth.append(self.model.classes.index(str(z["classes"][z["label"][number]])))
        int8, float32 = np.array(labels).T
        right = {"int8": int((int8 == truth).sum()), "float32": int((float32 == truth).sum())}
        return {"photographs": len(truth), "changed": int((int8 != float32).sum()), "right": right}

    def simulated(self, net: airpool.Network, count: int) -> list[int]:
        """Labels of the simulator from the seeds of a run."""
        latents, decode = self.latents.double().numpy(), codec_of(self.name, net).decode

        def one(number: int) -> int:
            seen, rng = latents[[number % len(latents)]], seeded.generator(SEED, number)
            server, how = partial(np.apply_along_axis, decode, -1), Simulation(path="full")
            return int(infer_features(seen, net, server=server, rng=rng, simulation=how).label.item())

        return [one(number) for number in range(count)]

    def run(self, net: airpool.Network, count: int, **options: Any) -> list[wire.Result]:
        device = {"bundle": self.bundle, "threads": 1, **options.pop("device_options", {})}
        setup = up.Setup(net, self.devices, self.source, self.name, device_options=device, slot_seconds=30.0, **options)

        async def play() -> list[wire.Result]:
            async with up.running(setup) as system, up.client(system) as client:
                found = [await client.Infer(wire.Nothing(), timeout=90) for _ in range(count)]
                assert not system.trouble()
                return found

        return asyncio.run(play())

    def label_by_label(self, epsilon: float, count: int) -> dict[str, Any]:
        """Inferences of seeded processes whose label is not the simulator's."""
        net = self.network(epsilon)
        found, expected = [each.label for each in self.run(net, count, simulate=SEED)], self.simulated(net, count)
        truth = [int(self.labels[k % len(self.labels)]) for k in range(count)]
        right = [float(np.mean(np.array(each) == truth)) for each in (found, expected)]
        differ = sum(a != b for a, b in zip(found, expected, strict=True))
        return {
            "epsilon": epsilon,
            "inferences": count,
            "changed": differ,
            "processes": right[0],
            "simulator": right[1],
        }

    def live(self, epsilon: float, count: int) -> dict[str, Any]:
        """Accuracy with live noise, keys and ledgers, beside the simulator's; every device books every inference."""
        net = self.network(epsilon)
        with tempfile.TemporaryDirectory() as folder:
            keys, ledgers = Path(folder, "keys"), Path(folder, "ledgers")
            authority.create(keys)
            for k in range(self.devices):
                authority.add(keys, f"device-{k}")
            ledgers.mkdir()
            found = self.run(net, count, keys=keys, device_options={"ledger": ledgers, "day_epsilon": 1e3})
            booked = {len(backup.content(ledgers / f"device-{k}.db").rows) for k in range(self.devices)}
        right = np.mean([each.label == int(self.labels[each.number % len(self.labels)]) for each in found])
        objects = EncodedObjects(self.latents, self.labels, self.model.codec().server)
        expected = float(evaluate(objects, net, trials=200, seed=0).record()["accuracy_mean"])
        return {
            "epsilon": epsilon,
            "inferences": count,
            "answered": sum(each.status == "answered" for each in found),
            "booked": sorted(booked),
            "processes": float(right),
            "simulator": expected,
            "error": float(np.sqrt(expected * (1 - expected) / count)),
            "median_seconds": float(np.median([each.seconds for each in found])),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.out is None:
        print(write_list(given.folder))
        return
    it = Running(given.folder)
    record: dict[str, Any] = {"data": "ETH-80", "seed": SEED, "version": __version__, "devices": it.devices}
    for name, value in (
        ("photographs", it.photographs),
        ("all_places", lambda: None if given.photos is None else it.all_places(given.photos)),
        ("seeded", lambda: [it.label_by_label(epsilon, 96) for epsilon in (2.0, 0.5)]),
        ("live", lambda: [it.live(epsilon, count) for epsilon, count in ((2.0, 320), (0.5, 960))]),
    ):
        record[name] = value()
        print(json.dumps(record[name]), flush=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
