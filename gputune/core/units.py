"""Base units, by type: what a number means is said where it is made."""

from typing import NewType

Seconds = NewType("Seconds", float)
Nanoseconds = NewType("Nanoseconds", int)
Bytes = NewType("Bytes", int)
Ratio = NewType("Ratio", float)  # 0 to 1
Cores = NewType("Cores", float)  # CPU seconds per second

NS = 1_000_000_000  # nanoseconds in a second
