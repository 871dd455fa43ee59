"""A medium of your own: the air, with every sum that it hands over written to a file.

    airpool air    --plugin examples/plugins/medium.py --medium recorded --network net.toml
    airpool device --plugin examples/plugins/medium.py --medium recorded --network net.toml --air ADDRESS --device 0

A medium has a hub, which opens a round for every inference, and the ports of devices (`airpool_runtime.medium`). This
one takes both from airpool's own, and changes what a round returns. The sum is all that the server gets.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

import airpool
from airpool.network import Network
from airpool_runtime.medium import MEDIA, DevicePort, Hub, HubSetup, Line, PortOptions, Round


class Recorded:
    """Appends one JSON line for every inference to RECORDED_SUMS, sums.jsonl by default."""

    def hub(self, setup: HubSetup) -> Hub:
        inner = MEDIA.get("air").hub(setup)
        opened = inner.opened

        def recorded(id: str, number: int, adverts: Mapping[int, bytes]) -> Round:
            this = opened(id, number, adverts)
            received = this.received

            def noted() -> NDArray[np.float64]:
                y = received()
                with open(os.environ.get("RECORDED_SUMS", "sums.jsonl"), "a", encoding="utf-8") as file:
                    print(json.dumps({"id": id, "number": number, "y": y.tolist()}), file=file)
                return y

            this.received = noted
            return this

        inner.opened = recorded
        return inner

    def slot_seconds(self, network: Network) -> float:
        return MEDIA.get("air").slot_seconds(network)

    def ports(
        self, network: Network, devices: Sequence[int], options: PortOptions
    ) -> Callable[[Line, int], DevicePort]:
        return MEDIA.get("air").ports(network, devices, options)


airpool.register("medium", "recorded")(Recorded())
