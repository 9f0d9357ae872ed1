import time

from tensorflow.python.framework.errors_impl import OutOfRangeError


class OwnedIterator:
    def __init__(self, dataset=None, components=None, element_spec=None):
        self.dataset = dataset
        self.elements = dataset.make()
        self.count = self.ns = 0
        self.back = None
        self.gaps = []

    def _next_internal(self):
        t0 = time.monotonic_ns()
        if self.back is not None:
            self.gaps = [*self.gaps, (t0 - self.back) // 1000][-100:]
        try:
            element = next(self.elements)
        except StopIteration:
            raise OutOfRangeError("End of sequence") from None
        self.back = time.monotonic_ns()
        self.ns += self.back - t0
        self.count += 1
        return element

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._next_internal()
        except OutOfRangeError:
            raise StopIteration from None

    def get_next(self):
        return self._next_internal()
