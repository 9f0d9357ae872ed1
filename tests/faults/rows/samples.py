"""No sample is lost or falsified: a damaged recording gives what was not hit, and says what was.

A real run is recorded, once while it goes on (frames) and once to its end (Parquet). Each case damages one file: cut at
a byte, bits flipped, a stretch of 4 KiB overwritten, moved or doubled; the cases of a kind and file walk over each of
its bytes before they come to one again. What is read then is compared with the run: of frames all those that are whole
yet and no others, of tables all that stands in other files.
"""

import contextlib
import functools
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.sample import Reading
from gputune.recording import about, frames, readings
from tests.faults import runs
from tests.faults.row import Case, chance, must

TESTS = "recording/test_frames.py, test_faults.py; nodes/test_cuts.py"
QUICK, FULL, SHARE = 600, 1_000_000, 40
SECONDS = 60.0
PAGE = 4096
FOOTER = 2048  # B at the end of a table that are not its pages


def place(step: int, size: int) -> int:
    """Return the byte of a step: each is hit once before one is hit again, and the first steps are far apart."""
    stride = next(each for each in range(int(size * 0.618), 2 * size + 2) if math.gcd(each, size) == 1)
    return step * stride % size


def cut(data: bytes, step: int, dice: random.Random) -> bytes:
    del dice
    return data[: place(step, len(data))]


def flipped(data: bytes, step: int, dice: random.Random) -> bytes:
    torn = bytearray(data)
    torn[place(step, len(data))] ^= 1 << dice.randrange(8)
    for _ in range(dice.choice((0, 0, 0, 1, 7))):
        torn[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(torn)


def footed(data: bytes, step: int, dice: random.Random) -> bytes:
    """Return it with one bit of its end flipped: what a table says of itself, of which its pages know nothing."""
    at = len(data) - 1 - place(step, min(len(data), FOOTER))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def overwritten(data: bytes, step: int, dice: random.Random) -> bytes:
    """Return it with a stretch of a page as a disk gives it that was never written, or another's."""
    at = place(step, len(data)) // 512 * 512
    page = dice.choice((bytes(PAGE), dice.randbytes(PAGE), data[: PAGE * 2][-PAGE:]))
    return (data[:at] + page + data[at + PAGE :])[: len(data)]


def shuffled(data: bytes, step: int, dice: random.Random) -> bytes:
    """Return it with two pages exchanged."""
    del step
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    first, second = dice.randrange(len(pages)), dice.randrange(len(pages))
    pages[first], pages[second] = pages[second], pages[first]
    return b"".join(pages)


HARM: tuple[Callable[[bytes, int, random.Random], bytes], ...] = (cut, flipped, footed, overwritten, shuffled)


class Original:
    """A run as it was, and what is read of it."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self.about = about.read(folder)
        self.lines = Counter(map(repr, read(folder, {})))
        self.files = sorted(
            file for file in folder.rglob("*") if file.name.startswith("frames-") or file.suffix == ".parquet"
        )
        must(self.lines and self.files, "the run that is to be damaged holds nothing")

    def harmed(self, number: int, dice: random.Random) -> tuple[str, bytes]:
        """Damage one file of a copy, and return its name and what it holds."""
        files = [self.folder / "run.json", *self.files]
        number, file = divmod(number, len(files))
        step, harm = divmod(number, len(HARM))
        name = str(files[file].relative_to(self.folder))
        torn = HARM[harm](files[file].read_bytes(), step, dice)
        copied(self.folder, self.scratch)
        (self.scratch / name).write_bytes(torn)
        return name, torn

    @functools.cache  # noqa: B019 - there are two of them, as long as the row lasts
    def beside(self, name: str) -> "Counter[str]":
        """Return what is read where this file is not there: what stands in the others."""
        copied(self.folder, self.scratch)
        (self.scratch / name).unlink()
        return Counter(map(repr, read(self.scratch, {})))

    def whole(self, name: str, torn: bytes) -> "Counter[str]":
        """Return what is read of those frames alone that stand in the damaged file with all their bytes."""
        data = (self.folder / name).read_bytes()
        packed = {frames.frame(each.table, each.payload) for each in frames.whole(data)}
        found = sorted((torn.find(each), each) for each in packed if each in torn)
        copied(self.folder, self.scratch)
        (self.scratch / name).write_bytes(b"".join(each for _, each in found))
        return Counter(map(repr, read(self.scratch, {})))


def copied(folder: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)


def read(folder: Path, lost: dict[str, str]) -> list[Reading]:
    return [reading for tick in readings(folder, lost) for reading in tick]


def check(original: Original, name: str, torn: bytes) -> None:
    """Compare what is read of the damaged copy with the run."""
    lost: dict[str, str] = {}
    try:
        found = Counter(map(repr, read(original.scratch, lost)))
    except GputuneError as error:
        says = str(error).partition("\n\nhint: ")[0]
        must("\n" not in says and len(says) < 500, f"no sentence: {error}")
        must(name == "run.json", f"nothing is read any more, for {name} is damaged: {error}")
        return
    if name == "run.json":
        must(about.read(original.scratch) == original.about, "a damaged run.json is read as if it were whole")
        must(found == original.lines, "another run is read where run.json is damaged")
        return
    if name.startswith("frames-"):
        same(found, original.whole(name, torn), f"a damaged {name}")
        return
    told = sum(said != "retold" for said in lost.values())
    false, missing = found - original.lines, original.lines - found
    must(not false or told, f"{sum(false.values())} readings of a damaged {name} were never taken: {sorted(false)[:1]}")
    must(not missing or told, f"{sum(missing.values())} readings of a damaged {name} are missing, and nobody is told")
    others = original.beside(name) - found
    must(not others, f"{sum(others.values())} readings of other files than {name} are missing: {sorted(others)[:1]}")


def same(found: "Counter[str]", wanted: "Counter[str]", what: str) -> None:
    false, missing = found - wanted, wanted - found
    must(not false, f"{sum(false.values())} readings of {what} were never taken: {sorted(false)[:1]}")
    must(not missing, f"{sum(missing.values())} readings of {what} are lost without need: {sorted(missing)[:1]}")


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    going, ended = runs.recorded(folder)
    originals = [Original(going, folder / "copy"), Original(ended, folder / "copy")]

    def case(number: int) -> None:
        original = originals[number % 2]
        name, torn = original.harmed(number // 2, chance("samples", number))
        check(original, name, torn)

    yield case
