"""The best loader settings of a script that is not edited: predicted by the model, then measured.

One start of the script gives the work behind its batches; the replay model plays it under every setting that CPUs,
memory and /dev/shm allow; only the best few are measured, against the script's own.

 script      what was typed: a script, a module or a command           settings   what is tried, and what it costs
 starter     how the script is started under settings                  living     a start while it goes on
 starting    one start of the script, and what came of it              timeline   when its batches came
 apart       what of its writing is kept apart                         writable   where it may write at all
 blame       whether a setting made it fail                            profile    what the first start shows
 limits      what must not be used up                                  lasting    whether the script keeps its loader
 choosing    rates, intervals, ties                                    search     which setting is measured next
 plateau     where more workers bring nothing                          steered    all settings in one start
 visiting    one setting in it, for a while                            restarts   each setting in a start of its own
 rungs       which trials are hopeless                                 batches    batch sizes, up to the knee
 learning    what another one does to learning                         journal    what was measured so far
 budget      how long it may still take                                sweeping   the undertaking
 result      the document, and its words                               kept       `gputune.toml`, which `run` applies
 patch       the same as a change of the script                        drafts     how these are written
 table       trials as CSV                                             several    several scripts, or nodes
 onray       starts as tasks of a Ray cluster                          faraway    one of them, on its node
"""
