"""The script started for so many batches, how fast these came, and whether one thing is faster than another.

Proofs, sweeps and tunings measure with it.

 script      what was typed, as a command                living      a start that goes on, read by this process
 starting    a start for some batches, to its end        record      its recording, where one is kept
 writable    where it may change files                   rungs       trials that are hopeless
 timeline    the batches of a run, by loader and rank    line        those of one loader in one process
 measured    rates compared: blocks of rounds, in turn
 budget      the time that all may take                  filling     how full memory was
 remote      one of gputune's processes on a node of a Ray cluster, as it is held there and here
"""
