"""Keras's `fit` as far as the guest sees it: the batches are got where no Python of the user or of ours runs."""

import contextlib

from tensorflow.python.framework.errors_impl import OutOfRangeError


class TFEpochIterator:
    def __init__(self, dataset, known):
        self.dataset, self.known = dataset, known

    def __iter__(self):
        self.steps = self._steps()
        return self

    def __next__(self):
        return next(self.steps)

    def _steps(self):
        iterator = iter(self.dataset)
        count = self.dataset.cardinality() if self.known else 10**9
        for step in range(count):
            yield step, step, iterator

    @contextlib.contextmanager
    def catch_stop_iteration(self):
        with contextlib.suppress(OutOfRangeError):
            yield


class TensorFlowTrainer:
    def __init__(self, step, known=True):
        self.step, self.known = step, known

    def fit(self, dataset, epochs, validation_data=None):
        epoch = TFEpochIterator(dataset, self.known)
        for _ in range(epochs):
            self._run(epoch)
            if validation_data is not None:
                self.evaluate(validation_data)

    def evaluate(self, dataset):
        self._run(TFEpochIterator(dataset, self.known))

    def predict(self, dataset):
        epoch = TFEpochIterator(dataset, self.known)
        with epoch.catch_stop_iteration():
            for _begin, _end, iterator in epoch:
                next(iterator)

    def _run(self, epoch):
        with epoch.catch_stop_iteration():
            for _begin, _end, iterator in epoch:
                self.step(type(iterator)._next_internal(iterator))
