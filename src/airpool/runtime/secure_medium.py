"""The secure sum as a medium: no radio, devices need identities (docs/howto/secure-sum.md)."""

from collections.abc import Callable, Sequence

from airpool.network import Network
from airpool.runtime.medium import DevicePort, Hub, HubSetup, Line, PortOptions
from airpool.runtime.secure_device import roster_of, secured_by
from airpool.runtime.secure_slot import SecureHub


class SecureMedium:
    """Rules of the secure sum."""

    def hub(self, setup: HubSetup) -> Hub:
        return SecureHub(setup, roster_of(setup.network, setup.options))

    def slot_seconds(self, network: Network) -> float:
        """Grows with the number of devices, each of which has a message and a key for every other one."""
        return 5.0 + 0.25 * network.devices.count

    def ports(
        self, network: Network, devices: Sequence[int], options: PortOptions
    ) -> Callable[[Line, int], DevicePort]:
        return secured_by(network, devices, options)


SECURE = SecureMedium()
