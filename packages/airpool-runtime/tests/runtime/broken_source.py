"""A plug-in source of shipped latents, of which four devices of twelve fail, each in its own way."""

import time
from functools import cache

from airpool_runtime import sources
from airpool_runtime.capture import CameraFrame

BROKEN = {0: "error", 3: "size", 6: "window", 9: "error"}


@cache
def held(device, devices):
    return sources.held_out_latents("modelnet40", "test", None, device, devices)[0]


def seen(number, device, devices):
    latents = held(device, devices)
    latent = latents[number % len(latents)]
    match device:
        case 0:
            raise OSError("the camera is unplugged")
        case 3:
            return latent[:-1]
        case 6:
            return CameraFrame(latent, time.time() - 3600)
        case 9:
            raise RuntimeError("any error of a driver")
        case _:
            return CameraFrame(latent, time.time())
