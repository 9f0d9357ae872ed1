"""What nodes are called on the screen: as their agents call themselves, unless somebody has given them a name here."""

import threading

from gputune.wire.address import Address


class Names:
    """The names that are taken. Two agents of one name are told apart by their addresses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, str] = {}  # name to the address of who has it

    def give(self, address: Address) -> str:
        """Return the name of an agent before it has said anything; one that somebody typed is no other's."""
        with self._lock:
            if address.named:
                self._taken[address.name] = str(address)  # also where it has moved
        return address.name

    def claim(self, address: Address, told: str) -> str:
        """Return the name of the agent there that calls itself `told`; it is that agent's from now on."""
        if address.named or not told:
            return address.name
        with self._lock:
            owner = self._taken.setdefault(told, str(address))
        return told if owner == str(address) else f"{told} ({address})"
