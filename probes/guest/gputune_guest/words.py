"""The numbers of `gputune/core/events.py`, said again: the island imports nothing of gputune. A test compares them."""

BATCH, FETCH, SPAN, STEP, GAP, WORKER, BACKWARD, ITERATOR, MEMBER, FORWARD, GUEST, READS = range(1, 13)
RENDEZVOUS, PICK, LOCKED, DEVICE, SEGMENT, MEMORY, OOM, PIN, DELAY, CROSSED, ENVIRONMENT = range(13, 24)

LOADER_START = 2
COPY_H2D = 4
SYNC = 5
CHECKPOINT = 6
LOGGING = 7
REPORTING = 8
EVALUATION = 9
COLLECTIVE = 10
CLEANUP = 11

ON_DEVICE, STOOD, GATHERED = 0x8000, 0x4000, 0x2000
QUEUED_BITS, CALM_PARTS = 10, 30
END = 1
FAILED = 2
UNTIMED = 4
APART = 8
INLINE = 1
PLAIN = 2
TFDATA = 4
DIRECT = 2
NO_NEXT = 1  # FORWARD: counted from the end of an optimizer step, there was no next()
LOOKED = 2
HELD = 1
DIVIDED = 2  # DEVICE, SEGMENT
EXPANDABLE = 0x100  # OOM
NEW = 1  # ITERATOR: the first of its loader
STANDS, SLOWS = 1, 2  # DELAY: the training, not a worker
RUNNERS = 0x8000  # ENVIRONMENT: those of RLlib, which ask the policy, too
LONE = 3  # DELAY: nobody was, but the other batches
