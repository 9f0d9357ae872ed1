"""The best loader settings of a script that is not edited: predicted by the model, then measured.

One start of the script gives the work behind its batches; the replay model plays it under every setting that CPUs,
memory and /dev/shm allow; only the best few are measured, against the script's own.

 script      what was typed: a script, a module or a command           settings   what is tried, and what it costs
 starting    one start of the script, and what came of it              limits     what must not be used up
 profile     what the first start shows: the work, and predictions     choosing   rates, intervals, ties
 search      which setting is measured next, and when that is enough   restarts   each setting in a start of its own
 batches     batch sizes, up to the knee                               learning   what another one does to learning
 journal     what was measured so far, to go on from there             budget     how long it may still take
 sweeping    the undertaking                                           result     the document, and its words
 kept        `gputune.toml`, which `gputune run` applies               patch      the same as a change of the script
 several     several scripts, or nodes                              table      trials as CSV
 rungs       which trials are hopeless                              onray      starts as tasks of a Ray cluster
                                                                    faraway    one of them, on its node
"""
