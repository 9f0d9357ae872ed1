"""Iterators that hand out a list of dicts, one for each pipeline; the first batch is made as they are constructed."""

from nvidia.dali.plugin.base_iterator import _DaliBaseIterator


class DALIGenericIterator(_DaliBaseIterator):
    def __init__(self, pipelines, output_map, size=-1, auto_reset=False, prepare_first_batch=True):
        self.output_map = output_map
        _DaliBaseIterator.__init__(self, pipelines, size, auto_reset, prepare_first_batch)
        self._first_batch = None
        if self._prepare_first_batch:
            self._first_batch = DALIGenericIterator.__next__(self)

    def __next__(self):
        if self._first_batch is not None:
            batch, self._first_batch = self._first_batch, None
            return batch
        return [dict(zip(self.output_map, outputs)) for outputs in self._get_outputs()]  # noqa: B905 - 3.8 has no strict


class DALIClassificationIterator(DALIGenericIterator):
    def __init__(self, pipelines, size=-1, auto_reset=False, prepare_first_batch=True):
        super().__init__(pipelines, ["data", "label"], size, auto_reset, prepare_first_batch)
