"""`airpool device`: one device or several in one process."""

from airpool_runtime.cli import running
from airpool_runtime.options import DeviceOptions

app = running.role_app(
    DeviceOptions, "Run a device: it clips and noises its own feature and transmits it, by its own network file."
)
