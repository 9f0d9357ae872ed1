"""NVML in a process of its own, so that a driver that hangs hangs nobody."""
