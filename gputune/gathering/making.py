"""What making a batch is made of, as stacks inside of the dataset's fetcher show it: decoding, transforms, indexing."""

from collections import Counter
from dataclasses import dataclass, field

from gputune.features import SERVED, Doing
from gputune.gathering.afterwork import place_of

FETCHER = "torch/utils/data/_utils/fetch.py"
# a part of a file's path, the kind of work, and what it is called; an empty name: by the library's own function
KNOWN: tuple[tuple[str, str, str], ...] = (
    ("/PIL/", "decode", "PIL"),
    ("/cv2/", "decode", "OpenCV"),
    ("/imageio/", "decode", "imageio"),
    ("/torchvision/io/", "decode", "torchvision.io"),
    ("/torchaudio/", "decode", "torchaudio"),
    ("/soundfile.py", "decode", "soundfile"),
    ("/json/", "decode", "json"),
    ("/gzip.py", "decode", "gzip"),
    ("/zipfile", "decode", "zipfile"),
    ("/pickle.py", "decode", "pickle"),
    ("multiprocessing/managers.py", SERVED, "a Manager"),
    ("/torchvision/transforms/", "transform", ""),
    ("/albumentations/", "transform", "albumentations"),
    ("/kornia/", "transform", "kornia"),
    ("torch/utils/data/_utils/collate.py", "collate", "collate"),
    ("torch/utils/data/dataset.py", "index", "tensor indexing"),
    ("/torchvision/datasets/", "index", "torchvision.datasets"),
    (FETCHER, "between", "between samples"),
)
LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen", "<string>", "gputune_guest/")

Parts = list[tuple[str, str, str]]  # function, file, line


def doing(parts: Parts) -> tuple[str, str, str] | None:
    """Return (kind, what, where) of a stack, given as (function, file, line), in which a batch is made; else None.

    The innermost frame that is known by its library counts, but for one of the user's own code that lies further in.
    What the user's own code does is of kind `own`, and named by its function.
    """
    begins = next((i for i, (_, file, _) in enumerate(parts) if FETCHER in file), None)
    if begins is None:
        return None
    for function, file, line in reversed(parts[begins:]):
        for mark, kind, name in KNOWN:
            if mark in file:
                return kind, name or function, _caller(parts[begins:]) if kind == SERVED else ""
        if _is_own(file):
            return "own", function, place_of((function, file, line))
    return None


def _is_own(file: str) -> bool:
    return bool(file) and not any(mark in file for mark in LIBRARIES)


def _caller(parts: Parts) -> str:
    """Return the innermost place in the user's own code."""
    return next((place_of(part) for part in reversed(parts) if _is_own(part[1])), "")


@dataclass(slots=True)
class Makings:
    """How often each doing was met while one process made batches."""

    total: int = 0
    _counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, parts: Parts, count: int) -> None:
        """Take a stack, seen `count` times; one in which no batch is made is left out."""
        found = doing(parts)
        if found is None:
            return
        self.total += count
        if found in self._counts or len(self._counts) < 256:  # different doings kept of one process
            self._counts[found] += count

    def merged(self, other: "Makings") -> "Makings":
        """Return the two together."""
        return Makings(self.total + other.total, self._counts + other._counts)

    def told(self) -> tuple[Doing, ...]:
        """Return what was met, most first, by its share of the stacks in which a batch was made."""
        return tuple(
            Doing(kind=kind, what=what, where=where, share=count / self.total)
            for (kind, what, where), count in self._counts.most_common()
        )
