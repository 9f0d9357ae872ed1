"""TensorFlow's tf.data: which pipelines there are, every `next()` of an eager iterator, and what the stages took.

What `iter(dataset)` gives is patched where it is constructed and advanced; inside of traced functions it is left alone
(`tffit.py` sees Keras's `fit`). The lines of the user's code are those that made the datasets. What runs is not what
was written: TensorFlow makes stateless maps parallel and adds a prefetch by itself. So the stages, and the time that
each took, are those of TensorFlow's own model of an iterator (`tf.data.experimental.get_model_proto`), which it keeps
for its AUTOTUNE in any case. A reading of it takes 0.1 to 0.4 ms, so it is read seldom.
"""

import sys
import time
import weakref

from gputune_guest import patching, places, ring, settings, spans, wrapping
from gputune_guest.loader import numbers
from gputune_guest.words import BATCH, END, FAILED, FETCH, ITERATOR, LOADER_START, SPAN, TFDATA

now = ring.now
record = ring.record
here = ring.here
cpu_of_process = time.process_time_ns

SOME, SOON = 4, 100_000_000  # at most one reading each four batches and each 100 ms,
ENOUGH = 64  # but one each 64 batches: TensorFlow keeps the times of the last 100 only
LONGEST = 64  # stages of a pipeline that are looked at
MODEL = "tensorflow.python.data.experimental.ops.iterator_model_ops"
PYTHON = frozenset(["PyFunc", "PyFuncStateless", "EagerPyFunc"])  # operations that call the user's Python
MAPS = frozenset(["_MapDataset", "_ParallelMapDataset"])
THROUGH = frozenset(["_PrefetchDataset", "_OptionsDataset", "_ModelDataset"])  # they hand on what they get

_built = {}  # id of a dataset to (weak reference, where, file)
_ids = {}  # what a pipeline is to [(id of the loader, weak reference to the dataset that has it)]
_notes = {}  # id of a loader to [how often its stages were told, how they were told last]
_iterators = {}  # id of an iterator to its Pipe
_eager = bool


class Pipe:
    """What we know of one iterator of theirs; `batch_size` 0 if it makes no batches, `last` that of its last one."""

    __slots__ = ("batch_size", "count", "cpu", "first", "gone", "last", "loader", "making", "mute", "number", "read")
    __slots__ += ("seen", "taken", "when")

    def __init__(self, theirs, told):
        self.number = next(numbers)
        self.loader, self.batch_size, self.last, self.first = told
        self.count = self.read = 0  # batches, and those of them before the last reading
        self.when = now()
        self.cpu = cpu_of_process()
        self.taken = 0  # batches, as TensorFlow counts them
        self.seen = {}  # stage to (elements, ns), as of the last reading
        self.making = 0  # ns of all stages for one batch, between the last two readings
        self.mute = False  # it has no model to read
        key = id(theirs)
        self.gone = wrapping.when_gone(theirs, _iterators.pop, key, None)
        _iterators[key] = self


def known(theirs):
    """Return what we know of an iterator, None if it is none of an eager pipeline."""
    return _iterators.get(id(theirs))


def due(mine, count, t):
    """Return whether the stages are to be read again, `count` batches after the last time."""
    return not mine.mute and (count >= ENOUGH or (count >= SOME and t - mine.when > SOON))


def _made(original):
    def before(args, _kwargs):
        if _eager() and not spans.silent:
            key = id(args[0])
            _built[key] = (wrapping.when_gone(args[0], _built.pop, key, None), *places.caller(0))

    return wrapping.around(original, before)


def _constructed(original):
    def before(args, kwargs):
        dataset = args[1] if len(args) > 1 else kwargs.get("dataset")
        return None if dataset is None else (args[0], dataset, now())

    def after(begun, _result, error):
        if error is None and _eager() and not spans.silent:
            _came(*begun)

    return wrapping.around(original, before, after)


def _came(theirs, dataset, t0):
    mine = Pipe(theirs, _describe(dataset))
    t1 = now()
    record(ITERATOR, 0, t0, t1, mine.number, mine.loader, 0, 1)
    record(SPAN, LOADER_START, t0, t1, 0, 0, mine.number)


def _describe(dataset):
    """Return (id of the loader, batch size, size of its last batch or 0 if unknown, whether it is new); say new ones.

    A pipeline that is built again on the same lines, after the earlier one is gone, is the same one.
    """
    chain = [dataset]
    while len(chain) < LONGEST and chain[-1]._inputs():
        chain.append(chain[-1]._inputs()[0])
    maps = [each for each in chain if type(each).__name__ in MAPS]
    where, file = _where((maps or chain)[0])
    size = next((int(each._batch_size) for each in chain if getattr(each, "_batch_size", None) is not None), 0)
    kinds = tuple(type(each).__name__ for each in chain)
    same = _ids.setdefault((where, size, kinds), [])
    for index, (number, owner) in enumerate(same):
        if owner() is None or owner() is dataset or index == settings.MOST - 1:
            same[index] = (number, weakref.ref(dataset))
            return number, size, _last(chain, size), False
    number = settings.number()
    same.append((number, weakref.ref(dataset)))
    python = any(_calls_python(each) for each in maps)
    lines = [_where(each)[0] for each in maps]
    mine = {"where": where, "file": file, "maps": lines, "python": python, "batch_size": size or None}
    ring.note(n="loader", id=number, framework="tf.data", num_workers=0, dataset=kinds[-1], **mine)
    return number, size, _last(chain, size), True


def _where(dataset):
    return _built.get(id(dataset), (None, "", ""))[1:]


def _last(chain, size):
    """Return how many samples the last batch holds, 0 where that is not known."""
    for each, source in zip(chain, chain[1:]):  # noqa: B905, RUF007 - 3.8 has neither strict nor pairwise
        if getattr(each, "_batch_size", None) is not None:
            full = bool(getattr(each, "_drop_remainder", False))
            total = int(source.cardinality())
            return 0 if total <= 0 or full else total % size or size
        if type(each).__name__ not in THROUGH:
            return 0
    return 0


def _calls_python(dataset):
    try:
        return any(each.type in PYTHON for each in dataset._map_func.function.graph.get_operations())
    except Exception:  # theirs, and inner
        return False


def _next(original):
    def before(args, _kwargs):
        mine = _iterators.get(id(args[0]))
        if mine is None or spans.in_next() or not _eager():
            return None
        t0 = now()
        awaited = spans.get_ident() == here.trainer
        if awaited:
            here.waiting = True  # what happens inside is waiting for data, whatever it is
        ring.mark(BATCH, 0, t0)
        return args[0], mine, t0, awaited

    def after(begun, data, error):
        theirs, mine, t0, awaited = begun
        t1 = now()
        if awaited:
            here.waiting = False
        code = 0 if error is None else END if isinstance(error, (StopIteration, *_ends)) else FAILED
        _returned(theirs, mine, code, data, t0, t1)

    return wrapping.around(original, before, after)


def _returned(theirs, mine, code, data, t0, t1):  # noqa: PLR0913, PLR0917 - one record's fields
    index = mine.count
    mine.count = index + 1
    if not code and due(mine, mine.count - mine.read, t1):
        mine.read = mine.count
        read(mine, theirs, t0)
    held = 0 if code or not mine.batch_size else _samples(data) or mine.batch_size
    record(BATCH, code, t0, t1, mine.number, index, -1, 0, held)


def _samples(data):
    """Return the first dimension of the first tensor of a batch, 0 where there is none."""
    first = data
    while type(first) in (list, tuple, dict) and first:
        first = next(iter(first.values())) if type(first) is dict else first[0]
    shape = getattr(first, "shape", None)
    return int(shape[0]) if shape is not None and shape.rank else 0


def read(mine, theirs, t0):
    """Read what the stages did since the last time, and tell it before the BATCH of `t0`.

    Returns (batches taken so far, times between the calls of the last ones in us), None where TensorFlow does not say.
    """
    model = sys.modules.get(MODEL)
    mine.when = now()
    try:
        proto = model.get_model_proto(theirs)
    except Exception:  # no AUTOTUNE, or an older version: there is no model
        mine.mute = True
        return None
    taken, cpu = proto.nodes[proto.output].num_elements, cpu_of_process()
    batches = taken - mine.taken
    if batches > 0:
        stages = _stages(mine, proto, batches)
        used = (cpu - mine.cpu) // batches
        mine.taken, mine.cpu = taken, cpu
        _tell(mine, stages, used, t0)
    return taken, list(proto.gap_times)


def _stages(mine, proto, batches):
    """Return (ns for one batch, name, how many at once, the most that AUTOTUNE allows or 0, buffer) of each stage.

    From the source's end, so that a stage is known before its inputs by how many of its elements make one batch.
    """
    found = []
    rest = [(proto.output, 1.0)]
    while rest and len(found) < LONGEST:
        key, each = rest.pop()
        node = proto.nodes[key]
        elements, ns = mine.seen.get(key, (0, 0))
        mine.seen[key] = (node.num_elements, node.processing_time)
        elements, ns = node.num_elements - elements, node.processing_time - ns
        cost = ns / elements * each if elements > 0 and each else ns / batches
        values = {parameter.name: parameter for parameter in node.parameters}
        at_once = values.get("parallelism")
        most = int(at_once.max) if at_once is not None and at_once.tunable else 0
        buffer = values.get("buffer_size")
        if key != proto.output:
            wide = max(1, int(at_once.state_value or at_once.value)) if at_once is not None else 1
            if at_once is not None and at_once.max >= 1:  # the threads that there are: more calls than these wait
                wide = min(wide, int(at_once.max))
            found.append((max(0, int(cost)), node.name, wide, most, int(buffer.state_value) if buffer else 0))
        rest.extend((source, each * node.ratio) for source in node.inputs)
    return found


def _tell(mine, stages, used, t0):
    """Say how the stages are when that is new, and what one batch took of them."""
    told = _notes.setdefault(mine.loader, [0, None])
    shape = [[name, wide, most, buffer] for _ns, name, wide, most, buffer in stages]
    if not stages or len(shape) < len(told[1] or ()):  # near an epoch's end: stages that are done are gone
        return
    if told[1] != shape and told[0] < 8:  # times that the stages of one pipeline are told
        told[:] = [told[0] + 1, shape]
        ring.note(n="pipeline", id=mine.loader, stages=shape)
    mine.making = sum(stage[0] for stage in stages)
    slowest = max(range(len(stages)), key=lambda index: stages[index][0])
    times = (t0, t0 + mine.making, max(0, used), -1, stages[slowest][0])
    record(FETCH, TFDATA | slowest << 8, *times, 0, mine.batch_size)


_ends = ()


def _hook_iterators(module):
    global _eager, _ends
    _eager = sys.modules["tensorflow.python.eager.context"].executing_eagerly
    _ends = (sys.modules["tensorflow.python.framework.errors_impl"].OutOfRangeError,)
    patching.patch(module.OwnedIterator, "__init__", _constructed)
    patching.patch(module.OwnedIterator, "__next__", _next)
    patching.patch(module.OwnedIterator, "get_next", _next)


def _hook_datasets(module):
    patching.patch(module.DatasetV2, "__init__", _made)


def _forked():
    """In a forked child: what the parent's ring was told, its own was not."""
    _iterators.clear()
    _ids.clear()
    _notes.clear()


wrapping.after_fork(_forked)
HOOKS = {
    "tensorflow.python.data.ops.iterator_ops": _hook_iterators,
    "tensorflow.python.data.ops.dataset_ops": _hook_datasets,
}
