"""Whether a prediction holds: the script runs again for a few dozen batches, with the change and without it.

What is measured here owes nothing to the model that predicted: batches are counted by the clock, warm-up left out.

 asked       a recorded run and the finding to be proved: what gputune can change by itself, and what it cannot
 trials      one run of the script: started, ended after some batches, its output kept in a log
 pace        samples/s of a recording, by the clock
 comparing   paces to a realised speed-up with its spread, and to a word
 against     recordings made after a change of the script, and whether it was made
 changing    as it is against changed, interleaved       ceilings    one batch again and again, files cold and warm
 proof       the document, and its words
"""
