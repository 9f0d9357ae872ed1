"""The runs that were kept: what is in a folder of them, what each is called, and which may go.

Nothing here reads the records of a run that has a verdict.

 one        a run as its folder tells it, without its records: live, ended or killed, and its verdict
 found      the runs that lie in a folder
 labels     what a person has called a run
 size       what a folder takes on the disk, and when it was last written
 rows       a row for each, and the document of `gputune runs --json`
 chosen     those of one job, with one finding or label
 pruning    which are old, and their end
 words      the list as a person reads it
"""
