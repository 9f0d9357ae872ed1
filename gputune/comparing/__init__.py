"""Two runs, or two sides of several runs each, held against each other: docs/compare.md.

What is read of a run is its verdict and its run.json, so that a week is compared as fast as a minute.

 sides        what was typed to the runs that it means
 subject      a run as it is compared: how fast, how sure, under which conditions
 interval     rates to a ratio with an interval that holds what lies between runs
 student      how far a difference of means may be off
 conditions   what differs beside the code, and what of it forbids a comparison
 facts        what a run tells of its machine and versions
 tables       settings, ledger and findings side by side
 comparison   the document, and what it comes to
 gate         `--fail-if-slower`
 words        as a person reads it
"""
