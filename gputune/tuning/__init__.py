"""Loader settings of a real training, tuned while it goes on: `gputune watch --tune`. docs/tune.md.

The recorder hands over what it reads (`Tuning`), a thread of its own decides what follows, orders go to the guests
(docs/steering.md). A training that is not served better by other settings is left as it is.

 training    what the recorder reads, as the thread asks      draws       random numbers that samples draw
 visits      a setting served for a while, and timed         candidates  which settings may be tried, and may pay
 tuner       look, search, prove, keep or go back            told        what the documents say of it
 tuning      the recorder's end of it                        room        whether memory runs short
"""

from gputune.tuning.tuning import Tuning

__all__ = ["Tuning"]
