"""The best loader settings of a script that is not edited: predicted by the model, then measured.

One start of the script gives the work behind its batches; the replay model plays it under every setting that CPUs,
memory and /dev/shm allow; only the best few are measured, against the script's own.

 settings    what is tried, and what it costs                          starter    how the script is started under it
 profile     what the first start shows                                limits     what must not be used up
 apart       what of its writing is kept apart                         lasting    whether the script keeps its loader
 blame       whether a setting made it fail                            pinned     what page-locked batches save
 choosing    ties, and which is the better one                         search     which setting is measured next
 plateau     where more workers bring nothing                          visiting   how long a visit to a setting is
 served      a visit to one, by orders: here and in `gputune/tuning/`  steered    all settings in one start
 restarts    each setting in a start of its own                        batches    batch sizes, up to the knee
 learning    what another one does to learning                         journal    what was measured so far
 sweeping    the undertaking                                           result     the document, and its words
 saved_settings  `gputune.toml`, which `run` applies                   patch      the same as a change of the script
 drafts      how these are written                                     table      trials as CSV
 several     several scripts, or nodes                                 onray      starts in a Ray cluster
 faraway     one of them, on its node
"""
