"""A pipeline: a thread makes batches ahead, as many as its queue holds."""

import queue
import threading


class Pipeline:
    """Has the attributes of DALI's. `make(index)` is called for each batch of a pass."""

    def __init__(self, batch_size, num_threads, make, batches, prefetch_queue_depth=2):
        self.batch_size, self.num_threads, self.prefetch_queue_depth = batch_size, num_threads, prefetch_queue_depth
        self._make, self.batches = make, batches

    def build(self):
        """Begin a pass."""
        depth = self.prefetch_queue_depth
        made = self._made = queue.Queue(depth["cpu_size"] if isinstance(depth, dict) else depth)
        work = threading.Thread(target=lambda: [made.put(self._make(i)) for i in range(self.batches)], daemon=True)
        work.start()

    def share_outputs(self):
        """Wait for the next batch."""
        return self._made.get()
