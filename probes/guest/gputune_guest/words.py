"""The numbers of `gputune/core/events.py`, said again: the island imports nothing of gputune. A test compares them."""

BATCH, FETCH, SPAN, STEP, GAP, WORKER, BACKWARD, ITERATOR, MEMBER, FORWARD, GUEST, READS = range(1, 13)
RENDEZVOUS, PICK, LOCKED, DEVICE, SEGMENT, MEMORY, OOM, PIN, DELAY, CROSSED, ENVIRONMENT = range(13, 24)

# SPAN: which it is.
LOADER_START, _, COPY_H2D, SYNC, CHECKPOINT, LOGGING, REPORTING, EVALUATION, COLLECTIVE, CLEANUP = range(2, 12)

# Codes, by the record that they are of.
END, FAILED, UNTIMED, APART = 1, 2, 4, 8  # BATCH
INLINE, PLAIN, TFDATA, ON_GPU = 1, 2, 4, 8  # FETCH
NO_NEXT, LOOKED = 1, 2  # FORWARD: counted from the end of an optimizer step, there was no next()
HELD, DIVIDED = 1, 2  # DEVICE, SEGMENT
NEW = 1  # ITERATOR: the first of its loader
DIRECT = 2  # READS
EXPANDABLE = 0x100  # OOM
STANDS, SLOWS, LONE = 1, 2, 3  # DELAY: not a worker was held up, but the training, or nobody but the other batches
ON_DEVICE, STOOD, GATHERED = 0x8000, 0x4000, 0x2000  # RENDEZVOUS
QUEUED_BITS, CALM_PARTS = 10, 30  # RENDEZVOUS, likewise
RUNNERS = 0x8000  # ENVIRONMENT: those of RLlib, which ask the policy, too
