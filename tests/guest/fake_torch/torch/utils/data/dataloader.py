import multiprocessing

from torch.utils.data import _utils


class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, collate_fn=_utils.collate.default_collate):
        self.dataset, self.batch_size, self.num_workers, self.collate_fn = dataset, batch_size, num_workers, collate_fn
        self.prefetch_factor = 2 if num_workers else None
        self.pin_memory = self.drop_last = self.persistent_workers = False
        self.multiprocessing_context = None
        self.sampler = range(len(dataset))
        self._dataset_kind = 0
        whole = range(len(dataset))
        self._index_sampler = [whole[i : i + batch_size] for i in whole[::batch_size]]

    def __iter__(self):
        return _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._sampler_iter = iter(loader._index_sampler)

    def __iter__(self):
        return self

    def __next__(self):
        return self._next_data()


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._dataset_fetcher = _utils.fetch._MapDatasetFetcher(loader.dataset, loader.collate_fn)

    def _next_data(self):
        return self._dataset_fetcher.fetch(list(next(self._sampler_iter)))


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        self._workers, self._index_queues = [], []
        self._data_queue = multiprocessing.Queue()
        for worker_id in range(loader.num_workers):
            queue = multiprocessing.Queue()
            arguments = (loader.dataset, queue, self._data_queue, loader.collate_fn, worker_id, loader.num_workers)
            worker = multiprocessing.Process(target=_utils.worker._worker_loop, args=arguments, daemon=True)
            worker.start()
            self._workers.append(worker)
            self._index_queues.append(queue)
        self._shutdown = False
        self._task_info = {}
        self._tasks_outstanding = 0
        self._reset(loader, True)

    def _reset(self, loader, first_iter=False):
        self._sent = self._received = 0
        for _ in self._workers * 2:
            self._put()

    def _put(self):
        task = next(self._sampler_iter, None)
        if task is not None:
            self._index_queues[self._sent % len(self._workers)].put((self._sent, list(task)))
            self._task_info[self._sent] = ()
            self._sent += 1
            self._tasks_outstanding += 1

    def _next_data(self):
        if self._received == self._sent:
            self._shutdown_workers()
            raise StopIteration
        while not self._task_info[self._received]:
            index, data = self._data_queue.get()
            self._task_info[index] = (data,)
            self._tasks_outstanding -= 1
        (data,) = self._task_info.pop(self._received)
        self._received += 1
        self._put()
        return data

    def _shutdown_workers(self):
        if not self._shutdown:
            self._shutdown = True
            for queue in self._index_queues:
                queue.put(None)
            for worker in self._workers:
                worker.join()
