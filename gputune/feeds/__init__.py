"""Where the screen's rows come from on this machine: `gputune/feeds/rows.py` says what they are.

local      this machine and its live runs          recorded   one recording, at any moment of it
machine    what the probes read of this machine    tasks      who uses its CPUs and devices
board      readings to the rows of a node          whereabouts  which runs go on here
drawn      a run that has ended, from its columns
one_run    one run folder, as it grows             history    readings to the series of a run
signalling signals to processes of runs, where that was allowed
"""
