"""The air as a GNU Radio flowgraph: the streams of K transmitters, each through a channel model, added up.

    /usr/bin/python3 examples/gnuradio/superpose.py --from tcp://127.0.0.1:5550,tcp://127.0.0.1:5551 \\
        --to tcp://127.0.0.1:5560 --samples 88 --noise-std 0.001

Needs GNU Radio 3.10 (`apt-get install --no-install-recommends gnuradio`) and the Python that it is made for; nothing of
airpool. `airpool radio transmit --out tcp://*:5550` is at the other end of --from, `airpool radio receive --recordings
tcp://…` at that of --to. It opens no window, and ends once the sum has been taken, or after --timeout seconds.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
import argparse
import sys
import time

from gnuradio import blocks, channels, gr, zeromq

# GNU Radio's channel model drops the first samples of a stream, and wants to see some beyond the last one.
LEAD, BEYOND = 3, 64


class Superposition(gr.top_block):
    """PULL → one frame amid silence → channel model, for every transmitter; their sum → PUSH."""

    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__("airpool superposition")
        self.samples = given.samples
        added, item = blocks.add_cc(), gr.sizeof_gr_complex
        for index, address in enumerate(given.sources):
            source = zeromq.pull_source(item, 1, address, 100, False)
            framed = blocks.stream_mux(item, [LEAD, given.samples, BEYOND])
            # Noise is the receiver's: one of the models adds it, of the power of I and Q together.
            noise = given.noise_std * 2**0.5 if index == 0 else 0.0
            model = channels.channel_model(noise, given.carrier_offset * index, 1.0, given.taps, given.seed + index)
            self.connect(blocks.null_source(item), (framed, 0))
            self.connect(source, (framed, 1))
            self.connect(blocks.null_source(item), (framed, 2))
            self.connect(framed, model, (added, index))
        self.head = blocks.head(item, given.samples)
        self.connect(added, self.head, zeromq.push_sink(item, 1, given.to, 100, False))

    def done(self) -> bool:
        return self.head.nitems_written(0) >= self.samples


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", dest="sources", required=True, type=lambda x: x.split(","), help="tcp://…, tcp://…")
    parser.add_argument("--to", required=True, help="tcp://… of the sum")
    parser.add_argument("--samples", required=True, type=int, help="of one frame, as `transmit` says")
    parser.add_argument("--noise-std", type=float, default=0.0, help="of the receiver, in I and in Q")
    parser.add_argument("--carrier-offset", type=float, default=0.0, help="between devices, as a share of the rate")
    parser.add_argument("--taps", type=lambda x: [complex(tap) for tap in x.split(",")], default=[1.0 + 0j])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds")
    given = parser.parse_args()
    air = Superposition(given)
    air.start()
    end = time.monotonic() + given.timeout
    while not air.done() and time.monotonic() < end:
        time.sleep(0.05)
    found = air.done()
    time.sleep(0.5)  # until the sum is on its way
    air.stop()
    air.wait()
    print(f"{given.samples} samples of {len(given.sources)} transmitters" if found else f"none in {given.timeout:g} s")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
