"""Where the bytes of a batch come from: files opened, time in opening them, bytes asked for and bytes from storage.

Only sampled batches are looked at. While one is being made, and in the thread that makes it, `builtins.open`, `io.open`
and `os.open` stand behind a wrapper that counts and takes the time; then they are back. `PIL.Image.open`, `numpy.load`,
`torch.load` and `pathlib` open their files through one of the three. Readers in C (OpenCV, HDF5) do not: of them the
bytes are known, and from the files that the process holds open, the mounts.

What follows the opening of a file lies in their code. So one small file a process is opened and read again when its
batch is made, and timed: it tells how much more a file costs than its opening, on this machine and opened in this way.
`numpy.fromfile` and `numpy.load` do more with a file than reading it (a second descriptor and a stream of C's, a header
in Python): where one of these has opened it, it is read again through that.
"""

import _thread
import builtins
import fcntl
import io
import os
import stat
import sys

from gputune_guest import locks, ring, spans, wrapping
from gputune_guest.words import DIRECT, INLINE, READS

now = ring.now
get_ident = _thread.get_ident

FIRST, EVERY = 5, 16  # batches 1 to 4 of each process that makes them, and each 16th; number 0 imports and warms up
FEW = 2  # files of a sampled batch that are asked which device they lie on
LARGE = 65536  # bytes; a file held open that is smaller is no data set
_WRITES = frozenset("wax+")
_BUILT_IN = type(len)
_O_DIRECT = getattr(os, "O_DIRECT", 0)

_seen = 0  # batches made here
_look = None  # the batch that is being looked at
_told = set()  # devices
_sizes = {}  # (device, inode) of files that were looked at, to their place among them and their bytes
_latest = -1  # place of the last one
_looked = 0  # how often one was
_searched = False
_priced = False
_io = None  # descriptor of this process's own
_made = {}  # (module, name) to a function there and what stands in its place


class _Look:
    """One sampled batch, while it is being made."""

    __slots__ = (
        *("after", "asked", "before", "code", "depth", "descriptor", "file", "ident", "locks", "ns", "opens"),
        *("copy", "originals", "reader"),
    )

    def __init__(self, descriptor, code):
        self.ident, self.depth = get_ident(), 0
        self.opens = self.ns = 0
        self.asked = 0  # files that were asked for their device
        self.code = code
        self.descriptor = descriptor
        self.after = (-1, -1)
        self.file = None  # how the first one was opened
        self.copy = None  # and what it holds, where it is small and has not been told what it costs
        self.reader = None  # and what has read it whole, where that was seen
        self.locks = locks.Locks()


def begin(inline):
    """Look at the batch that is about to be made, if its turn has come. Returns what `end` and `stop` want, or None."""
    global _seen, _look
    number, _seen = _seen, _seen + 1
    if (number >= FIRST and number % EVERY) or not number or _look is not None:
        return None
    look = _Look(_counters(inline), INLINE if inline else 0)
    look.before = _bytes(look.descriptor)
    look.originals = [*_stand_ins(), *locks.stand_ins(look.locks)]
    _look = look
    try:
        for owner, name, _original, ours in look.originals:
            setattr(owner, name, ours)
    except BaseException:
        stop(look)
        raise
    return look


def ahead():
    """Return how many batches come before the next one that `begin` looks at."""
    return -_seen % EVERY if _seen >= FIRST else 0


def skipped(many):
    """Count so many of them, of which `begin` was not asked."""
    global _seen
    _seen += many


def _stand_ins():
    """Yield (owner, name, original, ours) for every place where files are opened by name."""
    opened = builtins.open
    counted = _stand_in(builtins, "open", opened, _counted)
    yield builtins, "open", opened, counted
    yield io, "open", io.open, counted if io.open is opened else _stand_in(io, "open", io.open, _counted)
    yield os, "open", os.open, _stand_in(os, "open", os.open, _counted_low)
    accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
    if accessor is not None and vars(accessor).get("open") is opened:  # Python 3.10 only
        yield accessor, "open", opened, staticmethod(counted)
    numpy = sys.modules.get("numpy")
    for name, whole in (("fromfile", _are_bytes), ("load", _is_an_array)):
        original = getattr(numpy, name, None)
        if original is not None:
            yield numpy, name, original, _stand_in(numpy, name, original, _noticed, whole)


def _stand_in(owner, name, original, make, *more):
    """Return what stands in the place of a function: made once, for making it takes as long as all else in a look."""
    kept = _made.get((owner, name))
    if kept is None or kept[0] is not original:
        kept = _made[owner, name] = original, make(original, *more)
    return kept[1]


def stop(look):
    """Take everything back: the batch is made, or failed. What they have put in place meanwhile stays. Never raises."""
    global _look
    try:
        for owner, name, original, ours in look.originals:
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)
        _look = None
        look.after = _bytes(look.descriptor)
    except Exception as error:
        ring.failed(error)


def end(look, t0, t1, samples):
    """Record what was seen of a batch of so many samples (0 unknown)."""
    global _searched, _priced
    asked, read = -1, -1
    if look.before[0] >= 0 and look.after[0] >= 0:
        asked, read = look.after[0] - look.before[0] - len(look.copy or b""), look.after[1] - look.before[1]
    if not look.opens and not _searched and (asked >= LARGE or read >= LARGE):
        _searched = True
        _search(look)
    locks.tell(look.locks, look.code & INLINE, t0, t1)
    ring.record(READS, look.code, t0, t1, look.ns, asked, read, samples, look.opens)
    if look.copy is not None and not _priced:
        _priced = True
        _price(look.copy, look.reader, *look.file)


def _counters(inline):
    """Return the descriptor of the I/O counters: the thread's own in the training process, which writes logs too."""
    global _io
    if inline:
        if spans.local.io is None:
            spans.local.io = _opened("/proc/thread-self/io")
        return spans.local.io
    if _io is None:
        _io = _opened("/proc/self/io")
    return _io


def _opened(path):
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # no /proc, or a kernel that does not count
        return -1


def _bytes(descriptor):
    """Return (bytes asked of read() and its like, bytes that storage was read for), (-1, -1) where nobody counts."""
    if descriptor < 0:
        return (-1, -1)
    words = os.pread(descriptor, 256, 0).split()
    return (int(words[1]), int(words[9]))


def _counted(original):
    """Return a stand-in for `open`. After the batch, whoever has kept it only passes through it."""

    def before(args, kwargs):
        look = _look
        if look is None or look.depth or get_ident() != look.ident:
            return None
        look.depth = 1
        return look, args, kwargs, now()

    def after(begun, file, error):
        look, args, kwargs, t0 = begun
        took = now() - t0
        look.depth = 0
        mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
        name = args[0] if args else kwargs.get("file")
        if error is None and type(name) is not int and not _WRITES.intersection(mode):
            _took(look, took, file.fileno() if look.asked < FEW else -1)
            if look.file is None:
                look.file = (original, args, dict(kwargs))
                look.copy = None if _priced else _copied(original, name, kwargs, file)

    return wrapping.around(original, before, after)


def _counted_low(original):
    def before(args, kwargs):
        look = _look
        if look is None or get_ident() != look.ident:
            return None
        outer, look.depth = look.depth, 1
        return look, args, kwargs, outer, now()

    def after(begun, fd, error):
        look, args, kwargs, outer, t0 = begun
        took = now() - t0
        look.depth = outer
        if error is not None:
            return
        flags = args[1] if len(args) > 1 else kwargs.get("flags", 0)
        if flags & _O_DIRECT:
            look.code |= DIRECT
        if not outer and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _took(look, took, fd if look.asked < FEW else -1)

    return wrapping.around(original, before, after)


def _noticed(original, whole):
    """Return a stand-in for what opens, reads and closes a file in one call: it is kept with the first opening.

    `whole` says by its arguments whether it does nothing else.
    """

    def before(args, kwargs):
        look = _look
        unseen = look is not None and look.file is None and get_ident() == look.ident
        return (look, args, kwargs) if unseen else None

    def after(begun, _found, error):
        look, args, kwargs = begun
        if error is None and look.file is not None and whole(args, kwargs):
            look.reader = (original, args, kwargs)

    return wrapping.around(original, before, after)


def _are_bytes(args, kwargs):
    """Return whether `fromfile` takes bytes as they are, and parses no text."""
    # 3 arguments up to which `fromfile` reads bytes; the fourth makes it read text
    return len(args) <= 3 and not kwargs.get("sep")


def _is_an_array(args, kwargs):
    """Return whether `load` gets a file of numpy's own format by its name: no pickle, no archive, no map of it."""
    return len(args) == 1 and not kwargs and isinstance(args[0], (str, os.PathLike)) and str(args[0]).endswith(".npy")


def _took(look, ns, fd):
    look.opens += 1
    look.ns += ns
    if fd >= 0:
        look.asked += 1
        _place(look, fd, 0)


def _place(look, fd, least):
    """Tell the device and the folder of a regular file of at least `least` bytes, once a device."""
    about = os.fstat(fd)
    if not stat.S_ISREG(about.st_mode) or about.st_size < least:
        return
    if not least:
        _tell_apart(about)
    if len(_told) >= 8:  # told a process
        return
    if least and fcntl.fcntl(fd, fcntl.F_GETFL) & _O_DIRECT:
        look.code |= DIRECT
    if about.st_dev not in _told:
        _told.add(about.st_dev)
        path = os.readlink("/proc/self/fd/%d" % fd)
        device = "%d:%d" % (os.major(about.st_dev), os.minor(about.st_dev))
        ring.note(n="reads", device=device, folder=os.path.dirname(path))


def _tell_apart(about):
    """Count files that are opened, and the different ones among them: many samples may come from few files.

    A second pass that opens the same ones in the same order tells nothing of that: it is left out.
    """
    global _looked, _latest
    if len(_sizes) >= 4096:  # told apart in a process, by twos of each sampled batch
        return
    key = about.st_dev, about.st_ino
    is_new = key not in _sizes
    place, _ = _sizes.setdefault(key, (len(_sizes), about.st_size))
    before, _latest = _latest, place
    if not is_new and place != before and place == (before + 1) % len(_sizes):
        return
    _looked += 1
    # 8: looked at before it is said how many of them are different ones; then whenever they are twice as many
    if _looked >= 8 and not _looked & (_looked - 1):
        ring.note(n="distinct", looked=_looked, files=len(_sizes), bytes=sum(size for _, size in _sizes.values()))


def _copied(original, name, kwargs, file):
    """Return what a small regular file holds that Python's own `open` was given by its name; None for any other.

    It is read through the descriptor that they have just opened: none of theirs is opened again.
    """
    kind, text = type(name), os.fspath(name)
    plain = kind is str or kind.__module__.startswith("pathlib")
    if type(original) is not _BUILT_IN or type(text) is not str or not plain or kwargs.get("opener"):
        return None
    about = os.fstat(file.fileno())
    if not stat.S_ISREG(about.st_mode) or about.st_size > 65536:  # bytes of the copied file at the most
        return None
    return os.pread(file.fileno(), about.st_size, 0)


def _price(copy, reader, original, args, kwargs):
    """Tell what a small file costs beside being opened: a copy of one of theirs is opened, read and closed again.

    Done once a process; the copy lies beside the rings for so long. `reader` is what has read the file whole, with its
    arguments; None where that is not known.
    """
    ending = os.path.splitext(os.fspath(args[0] if args else kwargs["file"]))[1]
    path = os.path.join(os.environ["GPUTUNE_RINGS"], ".price-%d%s" % (os.getpid(), ending))
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:  # no room beside the rings: then it is not told
        return
    try:
        if os.write(fd, copy) == len(copy):
            _timed(path, reader, original, args, kwargs)
    except OSError:
        return
    finally:
        os.close(fd)
        os.unlink(path)


def _timed(path, reader, original, args, kwargs):
    """Tell what the copy costs, opened by what they have opened theirs by, and their name what it costs to be made."""
    if not args:
        args = (kwargs.pop("file", None),)
    kept = _lives_on(args)
    name = args[0]
    kind, text = type(name), os.fspath(name)
    # 6 arguments that `open` is given by `Path.open`, which has its price as well
    through = kind is not str and len(args) == 6 and not kwargs
    naming, opening, whole = [], [], []
    # 2_000_000 ns: where an opening takes longer they end, for the file is a while away
    # 9 times that a copy of one small file is opened and read, once a process
    while len(naming) < 9 and not (opening and opening[-1] > 2_000_000):
        t0 = now()
        kind(text)
        t1 = now()
        there = kind(path)
        naming.append(t1 - t0)
        t1 = now()
        file = original(there, *args[1:], **kwargs)
        t2 = now()
        file.close()
        opening.append(t2 - t1)
        whole.append(_read(reader, path) if reader else _all_of(original, kind(path), args[1:], kwargs, through))
    naming, opening, whole = (sorted(times)[len(times) // 2] for times in (naming, opening, whole))
    ring.note(n="files", naming=naming, opening=opening, ending=max(0, whole - opening), kept=kept)


def _all_of(original, named, args, kwargs, through):
    """Return the ns that a file takes from before its opening until nothing is left of it, its name left out.

    Of a file that was opened as text the bytes are read: it need not hold any, for all that its script asks of it, and
    decoding costs as much wherever the bytes come from.
    """
    t0 = now()
    with named.open(*args) if through else original(named, *args, **kwargs) as file:
        getattr(file, "buffer", file).read()
    del file
    return now() - t0


def _read(reader, text):
    """Return the ns that a file takes from before its opening until nothing is left of it, read as they read it."""
    original, args, kwargs = reader
    if not args:
        args, kwargs = (None,), {name: value for name, value in kwargs.items() if name != "file"}
    t0 = now()
    found = original(text, *args[1:], **kwargs)
    del found
    return now() - t0


def _lives_on(args):
    """Return whether somebody beside us holds the first of these, whose batch is made: it was not made for that."""
    ours = (object(),)
    return sys.getrefcount(args[0]) > sys.getrefcount(ours[0])


def _search(look):
    """Look through the files that are held open for those which bytes may have come from: nobody was seen to open any.

    Done once a process.
    """
    sizes = {}
    for entry in os.listdir("/proc/self/fd"):
        _held(look, int(entry), sizes)
    if sizes:
        ring.note(n="held", bytes=sum(sizes.values()))


def _held(look, fd, sizes):
    try:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            about = os.fstat(fd)
            if stat.S_ISREG(about.st_mode) and about.st_size >= LARGE:
                sizes[about.st_dev, about.st_ino] = about.st_size
            _place(look, fd, LARGE)
    except OSError:  # the descriptor of the listing itself, or one that another thread has closed
        return


def _forked():
    global _seen, _look, _told, _searched, _priced, _io, _sizes, _looked, _latest
    if _look is not None:  # the dataset forks while it makes a batch: the child's is nobody's sample
        stop(_look)
    _seen, _look, _told, _searched, _priced = 0, None, set(), False, False
    _io = spans.local.io = None
    _sizes, _looked, _latest = {}, 0, -1


wrapping.after_fork(_forked)
