"""Assignment of a model's cameras, or other sensors, to devices. Their positions: models/vision/views.py, `Cameras`."""

from array_api_compat import array_namespace

from airpool._support.arrays import Array

_MOST_PER_SENSOR = 10  # devices that may share one sensor of a model


def camera(device: int, devices: int, held: int) -> int:
    """Index of the sensor, of a model's `held`, that a device has: evenly spaced, or all of them in turn.

    >>> [camera(k, 3, 12) for k in range(3)], [camera(k, 5, 4) for k in range(5)]
    ([0, 4, 8], [0, 1, 2, 3, 0])
    """
    return device * held // devices if devices < held else device % held


def cameras(num_devices: int, held: int) -> list[int]:
    """The sensor of every device."""
    if not 1 <= num_devices <= _MOST_PER_SENSOR * held:
        raise ValueError(
            f"num_devices={num_devices} must be from 1 to {_MOST_PER_SENSOR * held}: the model has {held} sensors, "
            f"and at most {_MOST_PER_SENSOR} devices may share one; evaluate more devices on latents of your own"
        )
    return [camera(k, num_devices, held) for k in range(num_devices)]


def camera_note(num_devices: int, held: int) -> str | None:
    """A note on the sensors left out or repeated to fit the devices; None where there are none."""
    if num_devices == held:
        return None
    if num_devices > held:
        return (
            f"The model has {held} sensors: from device {held} on they are repeated in turn, with fresh noise; "
            f"the accuracy is not that of {num_devices} different sensors."
        )
    which = cameras(num_devices, held)
    used, rest = (", ".join(str(k) for k in range(held) if (k in which) == wanted) for wanted in (True, False))
    return f"Of the model's {held} sensors, used: {used}; left out: {rest}."


def temperatures(fitted: Array, num_devices: int) -> Array:
    """Temperature of every device's own view, (K,): the fitted one of its camera, if all cameras are there.

    Edge cases: another number of devices has other views, for which none was fitted → the mean for all.
    """
    xp = array_namespace(fitted)
    return fitted if num_devices == fitted.shape[0] else xp.broadcast_to(xp.mean(fitted), (num_devices,))
