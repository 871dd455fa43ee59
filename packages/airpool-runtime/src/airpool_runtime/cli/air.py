"""`airpool air`: the medium, a stand-in for the radio."""

from airpool_runtime.cli import running
from airpool_runtime.options import AirOptions

app = running.role_app(
    AirOptions, "Run the air: it adds up what devices send in a slot, and hands the server the noisy sum."
)
