"""Jobs for the tests: functions of a module, as a process of its own needs them."""

import os
import time

from airpool_web.asked import AskedError


def counts(tell, number, *, seconds=0.0):
    for k in range(number):
        tell({"part": "count", "k": k, "pid": os.getpid()})
        time.sleep(seconds)


def sleeps(tell, seconds):
    tell({"part": "begun", "pid": os.getpid()})
    time.sleep(seconds)


def sizes(tell, content):
    tell({"part": "size", "size": len(content), "content": content})


def refuses(tell):
    raise AskedError("too few devices", field="devices")


def breaks(tell):
    raise KeyError("a fault of the page")


def dies(tell):
    tell({"part": "begun"})
    os._exit(3)


def tells_nonsense(tell):
    tell({"part": "x", "what": lambda: None})  # cannot be sent
