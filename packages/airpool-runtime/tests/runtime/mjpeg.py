"""Network cameras on a loopback port, each in any condition: MJPEG over HTTP of one colour, which is the class."""

import io
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

SIZES = {"4k": (2160, 3840), "small": (60, 80)}
RATES = {"4k": 2.0, "slow": 5.0}


def jpeg(colour, size=(120, 160), seed=0):
    """A picture of red (0), green (1) or blue (2) with some noise; None: black."""
    height, width = size
    noise = np.random.default_rng(seed).integers(0, 12, (height, width, 3), dtype=np.uint8)
    if colour is not None:
        noise[..., colour] += 200
    packed = io.BytesIO()
    Image.fromarray(noise).save(packed, "JPEG", quality=80)
    return packed.getvalue()


class Cameras:
    """condition: of each camera, by its index: gone, frozen, black, damaged, 4k, small or slow; else good."""

    def __init__(self):
        self.colour, self.condition, self._made, self._count = 0, {}, {}, {}
        self._lock, self.stopping = threading.Lock(), False

    def next(self, k):
        """The next part of camera k; None: it hangs up."""
        how = self.condition.get(k, "good")
        if how == "gone":
            return None
        colour = {"black": None, "frozen": 0}.get(how, self.colour)
        with self._lock:
            self._count[k] = self._count.get(k, 0) + (how != "frozen")
            key = (colour, SIZES.get(how, (120, 160)), self._count[k] % (2 if how == "4k" else 8))
            if key not in self._made:
                self._made[key] = jpeg(*key)
        part = self._made[key]
        return part[: len(part) // 2] if how == "damaged" else part

    def rate(self, k):
        return RATES.get(self.condition.get(k, ""), 12.0)


@contextmanager
def serving(cameras):
    """The address of cameras, as http://127.0.0.1:PORT; camera 3 is at /3."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            k = int(self.path[1:])
            if cameras.condition.get(k) == "gone":
                self.send_error(503)
                return
            self.send_response(200)
            self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
            self.end_headers()
            try:
                while not cameras.stopping and (part := cameras.next(k)) is not None:
                    head = f"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {len(part)}\r\n\r\n"
                    self.wfile.write(head.encode() + part + b"\r\n")
                    time.sleep(1 / cameras.rate(k))
            except OSError:
                pass

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        cameras.stopping = True
        server.shutdown()
        server.server_close()
