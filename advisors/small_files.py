"""Each sample opens files of its own, and opening them takes a good part of the time in which batches are made.

What it sees: how many files the making of a batch opens and how long each takes to open, measured around `open` and
`os.open` in sampled batches; the bytes read per file from the kernel's counters; the share of the loop spent in
`next()`.

Why it matters: a file has a price, whatever is in it: the path is looked up, rights are checked, its inode is read
and its end is found. On a network or a cold disk that is a round trip or a seek; from the page cache some 10 µs. Small
samples cost more to find than to read, and nothing of it can be read ahead.

What to do: pack samples into files of 100 MB and more (tar shards with WebDataset, parquet, LMDB, one array that is
mapped) and read these in runs, or keep them in memory where they fit.

When it is wrong: when files are opened once and kept (then they are few), or when readers in C open them, which are not
seen. A pack that is read sample by sample at random keeps the order; shards that are streamed change it.

Sources: WebDataset and TFRecord documentation, "many small files"; horovod issue 824; Mohan et al., "Analyzing and
Mitigating Data Stalls in DNN Training", VLDB 2021 (fetch stalls).
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import size
from gputune.core.finding import WAITING, Finding, Speedup
from gputune.features import Features
from gputune.model.prediction import Outlook, outlooks
from gputune.model.replay import LoopSeries
from gputune.model.storage import NOTABLE, Demand, demand

CHECKLIST = ("data loading", "1.3")

OPENS = 0.5  # files a sample: fewer are packs already
SMALL = 1 << 20  # B a file: reading a megabyte takes tens of times as long as opening it
MOST, AT_MOST = 0.85, 0.95  # of the time in which a batch is made: samples are still read, decoded and put together
LEAST_SAVED = 0.67  # of what a file takes at the least: a record of a pack has its price, too


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        wanted = demand(run, outlook.loader)
        if wanted is None or outlook.starving < WAITING or not wanted.samples:
            continue
        few = wanted.opens < OPENS * wanted.samples
        # so much of the time in which a batch is made: below it packing buys little
        if few or (wanted.asked or 0.0) > SMALL * wanted.opens or wanted.handling < NOTABLE * outlook.making:
            continue
        yield _finding(outlook, wanted)


def _finding(outlook: Outlook, wanted: Demand) -> Finding:
    ends = (MOST, AT_MOST if outlook.loader.filing else MOST, AT_MOST)
    saved = (LEAST_SAVED, 1.0, 1.0)
    low, likely, high = (
        outlook.gain(outlook.now, _packed(outlook, wanted, part * wanted.opening * (1 + closing), most, waits))
        for part, closing, most, waits in zip(saved, wanted.closing, ends, _waits(wanted), strict=True)
    )
    speedup = Speedup(low=low.low, likely=likely.likely, high=high.high, steady=low.steady)
    each = (wanted.asked or 0.0) / wanted.opens
    return Finding(
        id="small-files",
        says=(
            f"a sample opens {wanted.opens / wanted.samples:.2g} files"
            f"{f' of {size(each)}' if each else ''}: opening them and what goes with it takes about "
            f"{min(wanted.handling, outlook.making) * 1e3:.3g} of the {outlook.making * 1e3:.3g} ms in which a batch "
            f"is made ({wanted.open_s * 1e3:.2g} ms to open one); the loop waits "
            f"{outlook.starving:.0%} of its time"
        ),
        do="pack samples into large files (tar shards, parquet, LMDB, one array) and read these in runs",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="batches replayed without the measured time to open their files and what goes with it; decoding stays",
        falsified_by=f"samples/s below x{speedup.low:.2f} of this run's with the same samples in one file",
        effect="changes-order",
        because="shards that are read in runs give another one; one pack that is read by index keeps it",
        evidence={
            "waiting": outlook.starving,
            "opens_per_sample": wanted.opens / wanted.samples,
            "bytes_per_file": each,
            "open_s": wanted.open_s,
            "batch_s": outlook.making,
        },
        where=outlook.loader.where,
    )


def _waits(wanted: Demand) -> tuple[float, float, float]:
    """Return the share of the wait for storage that goes with the files: least, likely, most.

    The files of one sample lie together in a pack: one read gets them. Nothing of it is sure where they do so now.
    """
    together = 1 - wanted.samples / wanted.opens if wanted.opens > wanted.samples else 0.0
    return 0.0, together, together


def _packed(outlook: Outlook, wanted: Demand, handling: float, most: float, waits: float) -> LoopSeries:
    """Return the work without `handling` s a batch for its files, of CPU and of storage as the batches have them.

    And without the share `waits` of the wait for storage.
    """
    cpu = outlook.making_cpu
    share = cpu / (cpu + wanted.waiting) if cpu + wanted.waiting else 0.0
    less_cpu = min(most, handling * share / cpu) if cpu else 0.0
    standing = max(handling * (1 - share), waits * wanted.waiting)
    less_blocked = min(most, standing / wanted.blocked) if wanted.blocked else 0.0
    packed = (
        replace(f, cpu=f.cpu * (1 - less_cpu), blocked=f.blocked * (1 - less_blocked)) for f in outlook.job.fetches
    )
    return replace(outlook.job, fetches=tuple(packed))
