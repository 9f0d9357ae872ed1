"""No sample is lost or falsified: a damaged recording gives what was not hit, and says what was.

A real run is recorded, once while it goes on (frames) and once to its end (Parquet). Each case damages one file: cut at
every byte in turn, bits flipped, a stretch of 4 KiB overwritten, moved or doubled.
"""

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from gputune.core.errors import GputuneError
from gputune.core.sample import Reading
from gputune.recording import about, readings
from tests.faults import runs
from tests.faults.row import Case, chance, must

TESTS = "recording/test_frames.py, test_faults.py; nodes/test_cuts.py"
QUICK, FULL, SHARE = 600, 1_000_000, 40
SECONDS = 60.0
PAGE = 4096


def cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data))]


def flipped(data: bytes, dice: random.Random) -> bytes:
    torn = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        bit = dice.randrange(len(data) * 8)
        torn[bit // 8] ^= 1 << bit % 8
    return bytes(torn)


def overwritten(data: bytes, dice: random.Random) -> bytes:
    """Return it with a stretch of a page as a disk gives it that was never written, or another's."""
    at = dice.randrange(len(data)) // 512 * 512
    page = dice.choice((bytes(PAGE), dice.randbytes(PAGE), data[: PAGE * 2][-PAGE:]))
    return (data[:at] + page + data[at + PAGE :])[: len(data)]


def shuffled(data: bytes, dice: random.Random) -> bytes:
    """Return it with two pages exchanged."""
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    first, second = dice.randrange(len(pages)), dice.randrange(len(pages))
    pages[first], pages[second] = pages[second], pages[first]
    return b"".join(pages)


HARM: tuple[Callable[[bytes, random.Random], bytes], ...] = (cut, flipped, flipped, overwritten, shuffled)


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

    def harmed(self, dice: random.Random) -> str:
        """Damage one file of a copy, and return its name."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.copytree(self.folder, self.scratch)
        file = dice.choice([self.folder / "run.json", *self.files * 3])
        name = str(file.relative_to(self.folder))
        data = file.read_bytes()
        torn = dice.choice(HARM)(data, dice)
        (self.scratch / name).write_bytes(torn)
        return name if torn != data else ""


def read(folder: Path, lost: dict[str, str]) -> list[Reading]:
    return [reading for tick in readings(folder, lost) for reading in tick]


def check(original: Original, name: str) -> None:
    """Compare what is read of the damaged copy with the run."""
    lost: dict[str, str] = {}
    try:
        found = Counter(map(repr, read(original.scratch, lost)))
    except GputuneError as error:
        says = str(error).partition("\n\nhint: ")[0]
        must("\n" not in says and len(says) < 500, f"no sentence: {error}")
        return
    if name == "run.json":
        must(about.read(original.scratch) == original.about, "a damaged run.json is read as if it were whole")
    told = sum(said != "retold" for said in lost.values())
    false = found - original.lines
    must(not false or told, f"{sum(false.values())} readings of a damaged {name} were never taken: {sorted(false)[:1]}")
    missing = original.lines - found
    must(
        not missing or told or name.startswith("frames-"),
        f"{sum(missing.values())} readings are missing of a damaged {name}, and nobody is told: {sorted(missing)[:1]}",
    )


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    going, ended = runs.recorded(folder)
    originals = [Original(going, folder / "copy"), Original(ended, folder / "copy")]

    def case(number: int) -> None:
        dice = chance("samples", number)
        original = originals[number % 2]
        check(original, original.harmed(dice))

    yield case
