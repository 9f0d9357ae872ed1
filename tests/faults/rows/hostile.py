"""A recording that somebody made to harm its reader is only read: no signal, no traceback, bounded time and memory.

Every checksum is right: frames are packed again after their content was changed, Parquet is written by the real writer
out of changed tables, documents are valid JSON with other values, and odd files lie where files are expected. Read by
`gputune report`, by `gputune.load`, by the screen and by an agent.
"""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gputune import cli
from gputune.core.errors import GputuneError
from gputune.core.hygiene import is_clean
from gputune.feeds.recorded import RecordedFeed
from gputune.recording import frames, load, parquet, seal
from gputune.recording.pulling import Cursor, Pullable
from tests.faults import runs
from tests.faults.row import Case, chance, must

TESTS = "recording/test_hostile.py; html/test_hostile.py"
QUICK, FULL, SHARE = 2000, 1_000_000, 60
SECONDS = 120.0
FIGURE = "most CPU of one reader, s"
MOST_CPU = 10.0  # s
MOST_MEMORY = 200 << 20  # B, and twice the files
CEILING = 16 << 30  # B of address space: who asks for more than that is refused, and the machine lives
WILD = (0, 1, -1, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**32 - 1, 2**53, 2**62, 2**63 - 1, -(2**63))
WORDS = ("", "\x1b]52;c;aGk=\x07", "x" * 100_000, "\udcff", "\u202eabc", "../../etc/passwd", "NaN", "1e400", "\n" * 50)
VALUES: tuple[object, ...] = (None, True, -1, 2**70, 1e308, -0.0, [], {}, [[]] * 3, {"a": {}}, *WORDS)
Reader = Callable[[Path], object]


def wild(dice: random.Random, size: int) -> bytes:
    """Return an integer of so many bytes as no recorder writes it."""
    value = dice.choice((*WILD, dice.getrandbits(8 * size)))
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def changed(data: bytes, dice: random.Random) -> bytes:
    """Return bytes with a few places changed, mostly where numbers lie."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        size = dice.choice((1, 4, 4, 8, 8))
        at = dice.randrange(max(1, len(found) - size)) // size * size
        found[at : at + size] = wild(dice, size)
    if dice.random() < 0.1:
        del found[dice.randrange(len(found)) :]
    return bytes(found)


def hostile_frames(folder: Path, dice: random.Random) -> None:
    file = folder / "frames-00001"
    whole = [frames.RecordedFrame(f.table, f.payload, f.end) for f in frames.whole(file.read_bytes())]
    packed = [frames.frame(f.table, f.payload) for f in whole]
    for _ in range(dice.choice((1, 1, 3))):
        at = dice.randrange(len(whole))
        table = whole[at].table if dice.random() < 0.8 else dice.choice((0, 1, 2, 3, 4, 5, 6, 127, 130, 131, 255))
        packed[at] = frames.frame(table, changed(whole[at].payload, dice))
    if dice.random() < 0.2:
        dice.shuffle(packed)
    if dice.random() < 0.1:
        packed *= dice.choice((3, 50))
    file.write_bytes(b"".join(packed))


def strange(column: pa.Array, dice: random.Random) -> pa.Array:
    """Return a column of the same length with other values, of the same kind or another."""
    size, kind = len(column), column.type
    if dice.random() < 0.25:
        kind = dice.choice(
            (pa.string(), pa.int64(), pa.float32(), pa.list_(pa.string()), pa.bool_(), pa.timestamp("us"))
        )
    if pa.types.is_string(kind):
        values: list[object] = [
            dice.choice((*WORDS[:3], *WORDS[4:], json.dumps(dice.choice(VALUES[:11])))) for _ in range(size)
        ]
    elif pa.types.is_floating(kind):
        values = [dice.choice((float("nan"), float("inf"), -1e300, 1e38, 0.0, dice.random())) for _ in range(size)]
    elif pa.types.is_boolean(kind) or pa.types.is_list(kind):
        values = [None] * size
    else:
        values = [dice.choice(WILD) for _ in range(size)]
        bits = getattr(kind, "bit_width", 64)
        values = [(v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for v in values]  # type: ignore[operator] # numbers
    if dice.random() < 0.2:
        values = [value if dice.random() < 0.7 else None for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return pa.nulls(size, kind)


def hostile_table(folder: Path, dice: random.Random) -> None:
    """Write a part of a table again, by the real writer, out of other values."""
    file = dice.choice(sorted(folder.glob("*/*.parquet")))
    table = parquet.decode(file.read_bytes())
    for _ in range(dice.choice((1, 2, 4))):
        at = dice.randrange(table.num_columns)
        what = dice.randrange(5)
        name = table.column_names[at]
        if what == 0 and table.num_columns > 1:
            table = table.remove_column(at)
        elif what == 1:
            table = table.rename_columns(
                [dice.choice(WORDS[1:3]) if n == at else c for n, c in enumerate(table.column_names)]
            )
        elif what == 2:
            table = pa.concat_tables([table] * dice.choice((0, 2, 20)) or [table.slice(0, 0)])
        else:
            table = table.set_column(at, name, strange(table[at].combine_chunks(), dice))
    if dice.random() < 0.3:
        table = table.replace_schema_metadata(
            {b"gputune": json.dumps({c: dice.choice(VALUES) for c in table.column_names}).encode()}
        )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=dice.choice(("zstd", "none", "snappy")), store_schema=dice.random() < 0.3)
    file.write_bytes(sink.getvalue().to_pybytes())


def hostile_file(folder: Path, dice: random.Random) -> None:
    """Change bytes of a part, and close its footer again."""
    file = dice.choice(sorted(folder.glob("*/*.parquet")))
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    head, foot = data[:start], data[start:-8]
    if dice.random() < 0.3:
        head = b"PAR1" + changed(head[4:], dice)
    else:
        foot = changed(foot, dice)
    length = struct.pack("<I", len(foot)) if dice.random() < 0.9 else wild(dice, 4)
    file.write_bytes(
        seal.closed(head + foot.replace(seal.KEY + b"\x18\x08", seal.KEY + b"\x18\x08") + length + b"PAR1")
    )


def other(value: object, dice: random.Random) -> object:
    """Return a document with one place in it changed, however deep."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(sorted(value))
        return {**value, key: other(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        at = dice.randrange(len(value))
        return [*value[:at], other(value[at], dice), *value[at + 1 :]]
    return dice.choice((*VALUES, {str(value): value}, [value] * 1000))


def hostile_document(folder: Path, dice: random.Random) -> None:
    file = dice.choice(sorted(folder.glob("*.json")))
    told: Any = json.loads(file.read_text())
    told.pop("crc32", None)  # as in a run of before: else it is one that was changed, and nothing in it is looked at
    for _ in range(dice.choice((1, 1, 2, 6))):
        told = other(told, dice)
    if dice.random() < 0.05:
        told = "[" * 100_000
    file.write_text(json.dumps(told), errors="surrogatepass")


def odd(folder: Path, dice: random.Random) -> None:
    """Put something that is no file of a run where one may be expected."""
    names = ["run.json", "findings.json", "live.json", "share.json", "rank-00000", "frames-00001", "frames-00002"]
    names += [
        f"frames-{10**30}",
        "samples/00002.parquet",
        "batches",
        "samples",
        "job.json",
        "report.html",
        "proof.json",
        "sweep.json",
    ]
    file = folder / dice.choice(names)
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    file.parent.mkdir(exist_ok=True)
    what = dice.randrange(6)
    if what == 0:
        os.mkfifo(file)
    elif what == 1:
        file.symlink_to(dice.choice(("/dev/zero", "/etc/passwd", ".", "/proc/self/mem")))
    elif what == 2:
        file.mkdir()
        (file / "0").mkdir(mode=0)
    elif what == 3:
        with file.open("wb") as sparse:
            sparse.truncate(dice.choice((1 << 40, 64 << 20)))
    elif what == 4:
        file.write_bytes(dice.randbytes(dice.choice((0, 1, 5000))))
    else:
        file.touch(mode=0)


ATTACKS = (hostile_frames, hostile_table, hostile_file, hostile_document, odd)


def reported(folder: Path, *more: str) -> None:
    """Read it as `gputune report` does, and look at all that is said."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.run(["report", str(folder), *more])
    said = err.getvalue()
    must(status in {0, 1, 2}, f"status {status}")
    must("Traceback" not in said and "open an issue" not in said, said)
    must(status == 0 or said.count("error: ") >= 1, f"status {status}, and no word: {said}")
    out.flush()
    shown = out.buffer.getvalue().decode()  # type: ignore[attr-defined] # BytesIO's
    for line in (*shown.split("\n"), *said.split("\n")):
        must(is_clean(line), f"a terminal would obey {line!r}")


def again(folder: Path) -> None:
    reported(folder, "--again")


def as_json(folder: Path) -> None:
    reported(folder, "--json")


def as_page(folder: Path) -> None:
    page = folder.parent / "page.html"
    page.unlink(missing_ok=True)
    reported(folder, "--html", str(page))


def loaded(folder: Path) -> None:
    load(folder)


def shown(folder: Path) -> None:
    feed = RecordedFeed(folder)
    try:
        since = 0
        for _ in range(50):
            update = feed.poll(since)
            since = update.until
            if not update.more:
                break
        feed.seek(feed.run, 0.5)
        feed.poll(since)
    finally:
        feed.close()


def pulled(folder: Path) -> None:
    source = Pullable(folder)
    try:
        at = Cursor()
        for _ in range(50):
            piece = source.since(at)
            at = piece.next
            if not piece.more:
                break
    finally:
        source.close()


READERS: tuple[Reader, ...] = (reported, again, as_json, as_page, loaded, shown, pulled)


def peak() -> int:
    """Return the most memory that was resident since `forgotten`."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


def forgotten() -> int:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak()


def size(folder: Path) -> int:
    return sum(file.lstat().st_blocks * 512 for file in folder.rglob("*"))


def read(folder: Path, reader: Reader) -> float:
    """Read it, and return the CPU that it took (s)."""
    before, began = forgotten(), time.process_time()
    with contextlib.suppress(GputuneError, OSError):
        reader(folder)
    took, grown = time.process_time() - began, peak() - before
    must(took < MOST_CPU, f"{reader.__name__} took {took:.1f} s of CPU")
    must(grown < 2 * size(folder) + MOST_MEMORY, f"{reader.__name__} took {grown >> 20} MiB for {size(folder)} B")
    return took


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    resource.setrlimit(resource.RLIMIT_AS, (CEILING, CEILING))
    going, ended = runs.recorded(folder)
    for reader in READERS:  # what they import is no memory of a hostile run
        reader(ended)
    copy = folder / "copy"

    def case(number: int) -> float:
        dice = chance("hostile", number)
        attack = ATTACKS[number % len(ATTACKS)]
        original = going if attack is hostile_frames or (attack is odd and dice.random() < 0.5) else ended
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(original, copy)
        attack(copy, dice)
        return read(copy, dice.choice(READERS))

    yield case
