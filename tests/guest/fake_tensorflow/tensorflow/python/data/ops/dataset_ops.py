class DatasetV2:
    def __init__(self, source=None):
        self.source = source

    def _inputs(self):
        return [self.source] if self.source is not None else []

    def __iter__(self):
        from tensorflow.python.data.ops import iterator_ops

        return iterator_ops.OwnedIterator(self)

    def map(self, function):
        return _MapDataset(self, function)

    def batch(self, size):
        return _BatchDataset(self, size)

    def cardinality(self):
        return self.source.cardinality()


class _RangeDataset(DatasetV2):
    def __init__(self, count):
        self.count = count
        super().__init__()

    def cardinality(self):
        return self.count

    def make(self):
        return iter(range(self.count))


class _MapDataset(DatasetV2):
    def __init__(self, source, function):
        self.function = function
        super().__init__(source)

    def make(self):
        return map(self.function, self.source.make())


class _BatchDataset(DatasetV2):
    def __init__(self, source, size):
        self._batch_size = size
        super().__init__(source)

    def cardinality(self):
        return -(-self.source.cardinality() // self._batch_size)

    def make(self):
        batch = []
        for element in self.source.make():
            batch.append(element)
            if len(batch) == self._batch_size:
                yield Batch(batch)
                batch = []
        if batch:
            yield Batch(batch)


class Shape(tuple):
    rank = 1


class Batch:
    def __init__(self, elements):
        self.elements = elements
        self.shape = Shape([len(elements)])
