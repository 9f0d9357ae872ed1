"""Putting samples together to a batch, or handing the batch over, takes the time: `collate_fn` and unpickling.

What it sees: the part of making a batch that is spent in `collate_fn` (measured around it), and how long a batch that
a worker has finished takes to reach the training (from the worker's last record to the return of `next()`), both
against what the batch's bytes cost when they are stacked once and passed on as one tensor.

Why it matters: Python lists that become tensors, padding in loops and batches of many small tensors are made one
number or one file descriptor at a time. The first keeps a worker busy, the second the training itself: each tensor of a
batch is opened in the training process one after the other, while the device waits. They are looked at, put together
and let go one by one as well: that part of a step lies before its first module call, and is measured there.

What to do: let the dataset return tensors or arrays, not lists; read and convert a whole batch at once
(`__getitems__`); pad by slicing into one array made in advance; return a few large tensors, not many small ones.

When it is wrong: when the work inside `collate_fn` is not assembly but transforms that have to be done anyhow: then it
is heavy preprocessing in another place. Workers that hold the GIL deliver late, too, whatever they deliver.

Sources: `torch.utils.data` documentation, "Working with collate_fn"; the way of tensors through shared memory:
`torch.multiprocessing`, "Sharing strategies"; the model is `gputune/model/replay.py`.
"""

import math
from collections.abc import Iterator

from gputune.core.figures import TINY, mean
from gputune.core.finding import WAITING, WORTH_SAYING, Finding, Speedup
from gputune.features import Features
from gputune.model.batch_handoff import STACK_RATE, STACKED_S, getting_of, unhindered_of
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_SAMPLED
from gputune.model.prediction import Outlook, outlooks
from gputune.model.remade import Lighter, handed_over
from gputune.model.replay import DELIVERY_S

CHECKLIST = ("data loading",)

SAVED = 0.75  # of the excess: what at least goes where assembly cannot be made as cheap as stacking
LATE = 2.0  # times what one piece takes to arrive: it is worth a word
QUICK = 0.5  # of the usual time to arrive: what it takes at best
PACKED = 4  # tensors of a batch that was in pieces: values, and where each begins
PACKED_S = 0.0013  # s for them to arrive
PIECES = 0.5  # of a step's CPU time: what looking at and closing many tensors may take of it, beside the model
HANDLED_S = 0.0003  # s of a step before its first module call that few tensors take as well
MOST = 0.9  # of a step's CPU time at the most that goes with its pieces
COUNTED = 127  # tensors of a batch are counted up to here
FEW = 8  # tensors of a batch: with no more, it is not by their number that it is late
UNPACKED_S = 0.0022  # s of CPU time in a next() that the training needs for few tensors and little else


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.starving < WAITING:
            continue
        best = _delivered(outlook)
        excess, lighter, fewer, prompt = _excess(outlook), _lighter(outlook), _fewer(outlook), not _of_few(outlook)
        speedup = handed_over(outlook, Lighter(excess, best, lighter, fewer, prompt))
        if speedup.likely >= WORTH_SAYING:
            late = best + (1 - SAVED) * max(0.0, _delivering(outlook) - best)
            least = handed_over(
                outlook, Lighter(SAVED * excess, late, SAVED * lighter, 1 - SAVED * (1 - fewer), prompt)
            )
            lightest, fewest = (max(lighter, PIECES), QUICK * fewer) if _in_pieces(outlook) else (0.0, 1.0)
            most = handed_over(outlook, Lighter(excess, QUICK * best, lightest, fewest, prompt))
            low, steady = (min(least.likely, end) for end in (speedup.low, speedup.sure))
            high = max(most.high, speedup.likely)
            yield _finding(outlook, Speedup(low=low, likely=speedup.likely, high=high, steady=steady))


def _stacking(outlook: Outlook) -> float:
    """Return the s that stacking a batch of this size takes."""
    return STACKED_S + (outlook.loader.batch_bytes or 0) / STACK_RATE


def _collating(outlook: Outlook) -> float:
    fetches = outlook.loader.fetches
    return sum(f.collate for f in fetches) / len(fetches)


def _excess(outlook: Outlook) -> float:
    """Return the share of the time in `collate_fn` that stacking does not explain; below 0, what it takes longer."""
    collating = _collating(outlook)
    least = -_stacking(outlook) / collating if collating and _in_pieces(outlook) else 0.0
    return max(least, 1 - _stacking(outlook) / collating) if collating else 0.0


def _lighter(outlook: Outlook) -> float:
    """Return the share of a step's CPU time that few tensors would save: it lies before the model's call."""
    before = outlook.process.before_forward
    if not _in_pieces(outlook) or not outlook.process.batch_gotten or len(before) < LEAST_BATCHES:
        return 0.0
    return min(MOST, max(0.0, mean(before) - HANDLED_S) / max(TINY, outlook.step_cpu))


def _fewer(outlook: Outlook) -> float:
    """Return the share of a batch's tensors that is left where few stand for many."""
    return PACKED / (outlook.loader.batch_tensors or COUNTED) if _in_pieces(outlook) else 1.0


def _delivering(outlook: Outlook) -> float:
    deliveries = outlook.loader.deliveries
    return sum(deliveries) / len(deliveries) if deliveries else 0.0


def _delivered(outlook: Outlook) -> float:
    """Return the s that a batch of this size takes to arrive in few pieces.

    Where it has few now, no less than at present, but for what the training computes to unpack all else that is in it,
    and for what its maker, never at rest meanwhile, would not compute any more; and no less than what the training's
    own CPU time says of it.
    """
    loader = outlook.loader
    whole = (PACKED_S if _in_pieces(outlook) else DELIVERY_S) + (loader.batch_bytes or 0) / STACK_RATE
    if not _of_few(outlook):
        return whole
    getting = getting_of(loader)
    unpacked = min(1.0, UNPACKED_S / getting) if math.isfinite(getting) else 1.0
    hindered = 1.0 if len(loader.unhindered) >= LEAST_SAMPLED else 1 - max(0.0, _excess(outlook) * _share(outlook))
    return max(min(whole, unhindered_of(loader)), outlook.handing * unpacked * hindered)


def _share(outlook: Outlook) -> float:
    """Return the share of a batch's making that is spent in `collate_fn`."""
    making = sum(f.wall for f in outlook.loader.fetches)
    return sum(f.collate for f in outlook.loader.fetches) / making if making else 0.0


def _in_pieces(outlook: Outlook) -> bool:
    """Return whether it is rather the arriving of a batch than its assembly that takes the time: many tensors.

    Where they were not counted it is taken to be their number; a worker that holds the GIL delivers late as well.
    """
    if _of_few(outlook):
        return False
    whole = DELIVERY_S + (outlook.loader.batch_bytes or 0) / STACK_RATE
    return _delivering(outlook) > max(_collating(outlook), LATE * whole)


def _of_few(outlook: Outlook) -> bool:
    tensors = outlook.loader.batch_tensors
    return tensors is not None and tensors <= FEW


def _where_to(outlook: Outlook) -> str:
    """Return what takes the time of a batch, the most of it first."""
    name, making = outlook.loader.collate, f"{_making(outlook) * 1e3:.3g} ms"
    arriving = f"takes {_delivering(outlook) * 1e3:.3g} ms to reach the training"
    if _in_pieces(outlook):  # due to what the function returns, however little time it takes itself
        pieces = _of_tensors(outlook) + (f", put together in {name}," if name else "")
        return f"a finished batch{pieces} {arriving}; a worker makes it in {making}"
    spent = f"{_collating(outlook) * 1e3:.3g} of the {making} to make a batch are spent{f' in {name}' if name else ''}"
    late = _delivering(outlook) > LATE * _delivered(outlook)
    return f"{spent}; a finished batch {arriving}" if late else spent


def _making(outlook: Outlook) -> float:
    return mean(f.wall for f in outlook.loader.fetches)


def _of_tensors(outlook: Outlook) -> str:
    tensors = outlook.loader.batch_tensors
    return f" of {tensors}{' or more' if tensors == COUNTED else ''} tensors" if tensors else ""


def _finding(outlook: Outlook, speedup: Speedup) -> Finding:
    loader = outlook.loader
    return Finding(
        id="heavy-collate",
        says=f"the loop waits {outlook.starving:.0%} of its time for batches: {_where_to(outlook)}",
        do=(
            "return few large tensors instead of many small ones"
            if _in_pieces(outlook)
            else "convert and pad whole batches at once: arrays instead of lists from the dataset, `__getitems__`"
        ),
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis=(
            "DataLoader replayed with batches stacked and passed on at the rate of their bytes; low: with "
            f"{SAVED:.0%} of what they take beyond that saved"
        ),
        falsified_by="the same wait with a `collate_fn` that returns one prepared batch again and again",
        effect="identical",
        evidence={
            "waiting": outlook.starving,
            "collate_s": _collating(outlook),
            "stacking_s": _stacking(outlook),
            "batch_s": _making(outlook),
            "delivery_s": _delivering(outlook),
            "batch_bytes": loader.batch_bytes or 0,
            **({"batch_tensors": loader.batch_tensors} if loader.batch_tensors else {}),
        },
        where=loader.where,
    )
