"""The standard health service and reflection of gRPC (`grpc.health.v1`), beside the services of a role."""

from collections.abc import Sequence

from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection


async def add_health(server: aio.Server, services: Sequence[str]) -> None:
    """Says of a server and of each of its services that it serves, and lists them; before the server is started."""
    servicer = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *services):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
