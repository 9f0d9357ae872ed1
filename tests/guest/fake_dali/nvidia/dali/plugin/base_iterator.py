"""What iterators of all frameworks share."""


class _DaliBaseIterator:
    def __init__(self, pipelines, size=-1, auto_reset=False, prepare_first_batch=True):
        self._pipes = pipelines if isinstance(pipelines, list) else [pipelines]
        self._num_gpus = len(self._pipes)
        self.batch_size = self._pipes[0].batch_size
        self._auto_reset, self._prepare_first_batch = auto_reset, prepare_first_batch
        self._counter = 0
        for pipe in self._pipes:
            pipe.build()

    def _get_outputs(self):
        if self._counter == self._pipes[0].batches:
            if self._auto_reset:
                self.reset()
            raise StopIteration
        self._counter += 1
        return [pipe.share_outputs() for pipe in self._pipes]

    def reset(self):
        self._counter = 0
        for pipe in self._pipes:
            pipe.build()

    def next(self):
        return self.__next__()

    def __next__(self):
        raise NotImplementedError

    def __iter__(self):
        return self
