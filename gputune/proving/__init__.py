"""Whether a prediction holds: the script runs again for a few dozen batches, with the change and without it.

What is measured here owes nothing to the model that predicted: batches are counted by the clock, warm-up left out.

 asked       a recorded run and the finding to be proved: what gputune can change by itself, and what it cannot
 trials      one run of the script, and pairs of them in turn: what `gputune/experiment/` starts, times and compares
 comparing   whether the realised speed-up is the predicted one, as a word
 against     recordings made after a change of the script, and whether it was made
 changing    as it is against changed                    ceilings    one batch again and again, files cold and warm
 proof       the document, and its words
"""
