"""What making a batch is made of, by the stacks inside of the fetcher."""

import pytest

from gputune.core.events import Kind
from gputune.gathering.making import doing
from gputune.gathering.stacks import _split

LIBRARY = "/venv/lib/python3.11/site-packages"
MAIN = "main (/home/me/train.py:30)"
NEXT = f"__next__ ({LIBRARY}/torch/utils/data/dataloader.py:700)"
FETCH = f"fetch ({LIBRARY}/torch/utils/data/_utils/fetch.py:54)"
ITEM = "__getitem__ (/home/me/data.py:12)"
PIL = f"fromarray ({LIBRARY}/PIL/Image.py:3300)"
TO_TENSOR = f"to_tensor ({LIBRARY}/torchvision/transforms/functional.py:170)"
COLLATE = f"collate ({LIBRARY}/torch/utils/data/_utils/collate.py:150)"
SERVED = "_callmethod (/usr/lib/python3.11/multiprocessing/managers.py:822)"
RECV = "recv (/usr/lib/python3.11/multiprocessing/connection.py:250)"
INDEX = f"__getitem__ ({LIBRARY}/torch/utils/data/dataset.py:207)"
NUMPY = f"asarray ({LIBRARY}/numpy/core.py:9)"


def of(*frames: str) -> tuple[str, str, str] | None:
    return doing([_split(frame) for frame in frames])


@pytest.mark.parametrize("frames", [(), (MAIN,), (MAIN, NEXT), (MAIN, ITEM), (MAIN, PIL)])
def test_where_no_batch_is_made_nothing_is_told(frames) -> None:
    assert of(*frames) is None


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ((), ("between", "between samples", "")),
        ((ITEM,), ("own", "__getitem__", "data.py:12")),
        ((ITEM, NUMPY), ("own", "__getitem__", "data.py:12")),
        ((ITEM, PIL), ("decode", "PIL", "")),
        ((ITEM, PIL, NUMPY), ("decode", "PIL", "")),
        ((ITEM, TO_TENSOR), ("transform", "to_tensor", "")),
        ((ITEM, TO_TENSOR, PIL), ("decode", "PIL", "")),
        ((ITEM, TO_TENSOR, "half (/home/me/mine.py:3)"), ("own", "half", "mine.py:3")),
        ((INDEX,), ("index", "tensor indexing", "")),
        ((INDEX, ITEM), ("own", "__getitem__", "data.py:12")),
        ((COLLATE, COLLATE), ("collate", "collate", "")),
        ((ITEM, SERVED, RECV), ("served", "a Manager", "data.py:12")),
        ((INDEX, SERVED), ("served", "a Manager", "")),
    ],
)
def test_the_innermost_frame_that_is_known_says_what_is_done(inside, found) -> None:
    assert of(MAIN, NEXT, FETCH, *inside) == found


def test_a_process_has_the_shares_of_its_own_stacks_and_its_workers(story) -> None:
    story.iterator(workers=1)
    story.record(Kind.MEMBER, story.at, story.at, a=1, b=11, c=0)
    story.epoch(3)
    story.stack(MAIN, count=50)
    story.stack(MAIN, NEXT, FETCH, ITEM, count=1)
    story.stack(FETCH, ITEM, PIL, count=3, pid=11)
    story.stack(FETCH, ITEM, PIL, count=9, pid=12)  # nobody's worker
    (process,) = story.features().processes
    assert process.making_stacks == 4
    assert [(d.kind, d.share) for d in process.making] == [("decode", 0.75), ("own", 0.25)]
