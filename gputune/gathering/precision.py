"""What a guest told of the precision that its model computes in, note by note."""

from collections.abc import Mapping
from dataclasses import replace

from gputune.core.sample import Json
from gputune.features import Precision


def precise(known: Precision, fields: Mapping[str, Json]) -> Precision:
    """Return what is known after one more note: that autocast was entered is never taken back."""
    autocast = known.autocast or fields.get("autocast") is True
    types = fields.get("types")
    if not isinstance(types, list):
        return replace(known, autocast=autocast)
    tf32, devices, threads = fields.get("tf32"), fields.get("devices"), fields.get("threads")
    return Precision(
        types=tuple(str(name) for name in types),
        devices=tuple(str(name) for name in devices) if isinstance(devices, list) else (),
        autocast=autocast,
        tf32=tf32 if isinstance(tf32, bool) else None,
        products=fields.get("products") is True,
        convolutions=fields.get("convolutions") is True,
        threads=threads if isinstance(threads, int) else None,
        anomaly=fields.get("anomaly") is True,
    )
