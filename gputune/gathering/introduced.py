"""What a training process says of itself: its Python, once, as torch is imported, and whether it serves others."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputune.core.sample import Json


@dataclass(slots=True)
class Introduced:
    """Its torch, the CUDA or HIP which that is built for, and whether the guest's hooks run in C; None where untold.

    `serves`: other processes call its functions (`torch.distributed.rpc`).
    """

    torch: str = ""
    built: str | None = None
    native: bool | None = None
    serves: bool = False

    def take(self, fields: Mapping[str, Json]) -> None:
        """Take a note of it: later ones may leave out what an earlier one has said."""
        self.torch = str(fields.get("torch") or self.torch)
        if fields.get("torch"):
            self.built = str(fields.get("cuda") or "")
        if isinstance(fields.get("native"), bool):
            self.native = bool(fields["native"])
        self.serves = self.serves or fields.get("serves") is True
