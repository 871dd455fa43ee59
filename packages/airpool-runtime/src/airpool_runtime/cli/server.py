"""`airpool server`: announces inferences and answers over gRPC and HTTP."""

from airpool_runtime.cli import running
from airpool_runtime.options import ServerOptions

app = running.role_app(
    ServerOptions, "Run the server: it announces inferences, decodes the noisy sum and names the object."
)
