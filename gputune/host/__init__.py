"""The machine as Linux tells of it: processes, counters, cgroups, sockets, what is allowed."""
