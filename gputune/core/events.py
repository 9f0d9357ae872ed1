"""What a guest reports from inside a training process: fixed-size records, and notes for what is said once.

The layout of the ring file that carries them is docs/ring.md; `probes/loader.py` reads it, `probes/guest/`
writes it, and `tests/probes/test_loader.py` holds the two together.
"""

from enum import IntEnum
from typing import NamedTuple

# The words of the ledger, in the order in which a run meets them. The order of this tuple is shown nowhere.
ENVIRONMENT_SPAN, POLICY_SPAN = "environment", "policy"  # what a training does that is to be learnt from
SPANS = (
    "startup",
    "loader.start",
    "loader.wait",
    "copy.h2d",
    "sync",
    "launch.wait",
    "checkpoint",
    "logging",
    "reporting",
    "cleanup",
    "evaluation",
    ENVIRONMENT_SPAN,
    POLICY_SPAN,
    "collective",
    "queue.wait",
    "between",
    "step",
    "teardown",
)
AROUND_LOOP = ("startup", "teardown")  # of these, what lies before the loop and after it,
STOPPING = (
    "checkpoint",
    "logging",
    "reporting",
    "cleanup",
    "evaluation",
)  # and the pauses in it that are no step's part


class Kind(IntEnum):
    """What a record is about. Which field means what is said beside each kind."""

    BATCH = 1  # one next() of a training-side iterator: a iterator id, b index in it, c samples (0 unknown),
    #            d what is ready when it asks (batches in the out-of-order buffer, -1 unknown);
    #            code: END | FAILED | UNTIMED, and APART
    FETCH = 2  # one batch made by a dataset fetcher: a CPU ns, b ns spent waiting for a CPU (-1 unknown),
    #            d ns in collate_fn, e bytes of the batch (0 not measured), c samples; code: INLINE | PLAIN | ON_GPU
    #            and, where the bytes were measured, tensors << 8 (127: as many or more), or TFDATA
    SPAN = 3  # code SpanCode; a site id (0 none), b bytes, d iterator id (loader.start), e 0 on the training
    #           thread else a thread id; c 1 = workers being shut down (loader.start), else a sum:
    #            1 = from pinned memory, 2 = non_blocking (copy.h2d); collective: d the call's number, the same on
    #            every rank (0: not all ranks make it), c ranks that meet; logging, reporting: calls in close
    #            succession, told as if all had come at their end: c those at the site, b ns of those at a second one, d
    #            its id | their count << 16 (0: there is none); c 0 is one call, as older guests told each
    STEP = 4  # one optimizer step is over: t0 = t1 its end, a optimizer id
    GAP = 5  # device clock, at a batch boundary: a ns the device idled between the end of a step's work and
    #          the start of the next one's, b ns of the step's work, d batch index, e iterator id (0: from one
    #          optimizer step to the next, without a DataLoader), c 1 + us after t0 at which the device was through
    #          with all that had been queued by t0 (0: not known); t0 the following next(), t1 its return
    WORKER = 6  # in a worker: t0 its start, t1 its end (0 while it lives): a worker id, b workers in all
    BACKWARD = 7  # one Tensor.backward call
    ITERATOR = 8  # an iterator came to life or was reset: a iterator id, b loader id, c workers, d 1 = reset,
    #               e 1 = gradients are on; t0 to t1 is its construction (also written as a loader.start span);
    #               code: NEW
    MEMBER = 9  # a worker process of an iterator: a iterator id, b pid, c worker id
    FORWARD = 10  # sampled steps only: t0 the return of next() (or the end of the optimizer step where there was no
    #               next()) and of what the guest does then, t1 the first call of a torch module after it, less what
    #               the guest took in between; code: 1 = t0 is an optimizer step's end,
    #               LOOKED: a ns of it in which torch worked on the weights, b ns on what else lies on the device
    GUEST = 11  # a sampled next() (t0 to t1, from entry to exit) and the step after it, at whose end it is written:
    #             a ns that the guest's hooks took of both, b CPU ns of the thread in theirs, d iterator id,
    #             e CPU ns of the whole process in the step, c ns that the sampling itself took beside a
    READS = 12  # sampled batches only, t0 to t1 as its FETCH: a ns in opening files, b bytes asked of read() and its
    #             like, d bytes that storage was read for (-1 unknown), e samples (0 unknown), c files opened;
    #             code: INLINE | DIRECT
    RENDEZVOUS = 13  # sampled steps of DistributedDataParallel: t0 this rank's gradients were done, t1 the last of them
    #                  was reduced; a the iteration, b bytes of gradients, d ns since the meeting before it ended,
    #                  e ns of reducing that ran beside the backward pass, c ranks that meet | buckets << 16;
    #                  code: ON_DEVICE, or in ten bits the thousandths of d that the thread was runnable without a
    #                  CPU, and above them 1 + the thirtieths of the latest forward passes that it was (0 unknown).
    #                  ON_DEVICE | STOOD: sampled rounds between t0 and t1 of the host's clock; a counts them, d ns
    #                  of the device's clock were this rank's own, e ns its stream stood for others and for the
    #                  transfer; GATHERED; the ten lowest bits: thousandths of d that the exchange ran beside
    PICK = 14  # the batch sampler of a loader said from t0 to t1 which samples make a batch: only where it took 0.1 ms
    #            or more; in a next(), whose BATCH comes after it, or as an iterator came to life
    LOCKED = 15  # sampled batches that entered locks of multiprocessing, t0 to t1 as its FETCH, before its READS: a ns
    #              that they were held, b ns that they were waited for, c how often; code: INLINE
    DEVICE = 16  # a timed step, t0 to t1 as the host goes through it: a ns of its copies to the device by the device's
    #              clock, b ns that the thread waited for the device in reads and synchronizations, d the same in
    #              copies, before they could begin, e ns that the device was behind at t0, c a bit for each segment that
    #              holds work (see SEGMENT)
    SEGMENT = 17  # a part of a timed step between two waits for the device, queued by the host from t0 to t1, that the
    #               device worked off without a gap: a ns of its work, copies left out, b which part, c as in DEVICE,
    #               d 1 and the ns of a that came behind the backward pass, 0 where that is not known; code: HELD,
    #               DIVIDED; e ns that the device was held for it
    MEMORY = 18  # what torch's allocator holds between two steps, t0 = t1: code the device as CUDA counts it, a B live,
    #              b B reserved, d B that were ever live at most, e how often it had to give back all that it cached
    OOM = 19  # a device's memory ran out, t0 = t1, which need not end anything: code the device, and EXPANDABLE; a B
    #           asked for, b B live, d B reserved, e B free on the device, c site id (0 none)
    PIN = 20  # the thread of `pin_memory=True` copied a batch into page-locked memory: t0 it was unpickled, t1 it is
    #           handed on to next(); a iterator id, b CPU ns since the batch before (unpickling), d CPU ns from t0 on,
    #           c number of the batch in its pass; code: 0, or 1 + the thousandths of t0 to t1 without a CPU
    DELAY = 21  # a worker was held up from t0 to t1 before it made a batch, to see whether it sets the pace: a the
    #             moment (ns) at which all workers of its loader were to be. STANDS: the training was, after a
    #             next(), for batches to lie ready: a iterator id, b those that did at t0, d at t1. SLOWS: it was
    #             before a next() of the iterator a (0: behind a step, without a loader), in block b of such rounds.
    #             LONE: nobody was, but nobody made any other batch of an iterator from t0 on, when the one that was
    #             waited for was asked for, to t1, when it was there; a iterator id, b index in it, as in its BATCH
    ENVIRONMENT = 23  # steps of environments on the training thread, the first from t0 on, the last until t1: a ns in
    #                   them, b how many, c environments that each one steps, d ns between them, in which nothing was
    #                   learnt, e site id; code: how many of the environments are in processes of their own,
    #                   or how many processes have them all, and RUNNERS

    CROSSED = 22  # a timed step, t0 to t1 as its DEVICE, after it: a ns by the device's clock that its stream stood
    #               for other devices of the process, and for what passes between them, b ns likewise for other ranks;
    #               neither is in its SEGMENTs; code: DIVIDED; only where it did


class SpanCode(IntEnum):
    """Which span a SPAN record is."""

    LOADER_START = 2
    COPY_H2D = 4
    SYNC = 5
    CHECKPOINT = 6
    LOGGING = 7
    REPORTING = 8
    EVALUATION = 9
    COLLECTIVE = 10
    CLEANUP = 11


SPAN_NAMES: dict[int, str] = {
    SpanCode.LOADER_START: "loader.start",
    SpanCode.COPY_H2D: "copy.h2d",
    SpanCode.SYNC: "sync",
    SpanCode.CHECKPOINT: "checkpoint",
    SpanCode.LOGGING: "logging",
    SpanCode.REPORTING: "reporting",
    SpanCode.EVALUATION: "evaluation",
    SpanCode.COLLECTIVE: "collective",
    SpanCode.CLEANUP: "cleanup",
}

QUEUED_BITS, CALM_PARTS = 10, 30  # RENDEZVOUS: of the code, and in which parts forward passes are told above them
RUNNERS = 0x8000  # ENVIRONMENT: these processes ask the policy, too, and the training waits for what they send


# Codes are plain numbers: a recorder looks at some with each record, and an IntFlag takes fifteen times as long.
class BatchCode:
    """How a `next()` ended, and who asked for it."""

    END = 1  # it raised StopIteration
    FAILED = 2  # it raised something else
    UNTIMED = 4  # it was counted, but nothing is known of the wait for it: t0 = t1
    APART = 8  # taken by another thread than the training's, which goes on meanwhile


class RendezvousCode:
    """What the times of a RENDEZVOUS are of."""

    GATHERED = 0x2000  # with STOOD: weights had to be gathered from the other ranks for this round (FSDP)
    STOOD = 0x4000  # times are of what the device's stream stood for, by events around it
    ON_DEVICE = 0x8000  # times are the device's; the training thread did not stand there


class DelayCode:
    """Who was held up."""

    STANDS = 1  # the training, for batches
    SLOWS = 2  # the training, as its rounds are slowed down
    LONE = 3  # all other batches, for one to be made by itself


class FetchCode:
    """Where and how a batch was made."""

    INLINE = 1  # in the training process itself (num_workers=0); so of READS
    PLAIN = 2  # most of the bytes that were measured are no tensors: from a worker they come through a pipe
    TFDATA = 4  # by the stages of a tf.data pipeline, a mean of the batches since the last such record: t0 to t1
    #            what all stages took together, a CPU ns of the whole process with its step, d ns of the slowest stage,
    #            which is number code >> 8 of those in the note `pipeline`
    ON_GPU = 8  # some of its tensors are on one


class ReadsCode:
    """How the files of a batch were read."""

    DIRECT = 2  # they were opened past the page cache (O_DIRECT)


class CopyField:
    """What field c of a SPAN copy.h2d says."""

    FROM_PINNED = 1  # the tensor lay in page-locked memory
    NON_BLOCKING = 2  # and the copy was asked for without waiting


class SegmentCode:
    """How a segment of a step, or a DEVICE record, was timed."""

    HELD = 1  # it was held back until the host had queued all of it
    DIVIDED = 2  # a step with more parts than it has waits, and no GAP: its host took longer than usual


class OomCode:
    """What is known of the allocator of an OOM."""

    EXPANDABLE = 0x100  # its segments can grow, so what it reserves does not come to pieces


class ForwardCode:
    """What is known of a FORWARD."""

    NO_NEXT = 1  # counted from the end of an optimizer step, there was no next()
    LOOKED = 2  # what torch did to the weights, and on the device, is known


class IteratorCode:
    """What is known of an ITERATOR."""

    NEW = 1  # the first one of a DataLoader that was built; of older guests none has it


class Record(NamedTuple):
    """One record of one process. `t0` and `t1` are ns of the monotonic clock."""

    kind: int
    code: int
    t0: int
    t1: int
    a: int
    b: int
    d: int
    e: int
    c: int


class Event(NamedTuple):
    """A record and the process that wrote it: `process` is the index that run.json gives that process."""

    process: int
    record: Record
