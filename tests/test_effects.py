"""What a change does to the samples: as it was measured with torch, and as docs/effects.md says it."""

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from gputune import advisors
from gputune.core.finding import Effect
from gputune.features import Loader
from gputune.verdict.effects import of_moved_work, of_workers


def loader(workers: int, **differs: object) -> Loader:
    facts = {"where": "t.py:1", "prefetch_factor": 2, "pin_memory": False, "persistent_workers": False, "batch_size": 4}
    return Loader(num_workers=workers, **{**facts, **differs})


@pytest.mark.parametrize(
    ("now", "then", "persistent", "differs", "effect"),
    [
        (2, 6, False, {}, "same-order"),
        (6, 2, True, {"persistent_workers": True}, "same-order"),
        (0, 4, False, {}, "changes-order"),
        (0, 4, False, {"order": "shared"}, "changes-order"),
        (0, 4, False, {"order": "shared", "draws": True}, "changes-order"),
        (0, 4, False, {"order": "shared", "draws": False}, "same-order"),
        (0, 4, False, {"order": "own", "draws": True}, "same-order"),
        (0, 4, False, {"order": "fixed", "draws": True}, "same-order"),
        (0, 4, True, {"order": "shared", "draws": False}, "changes-order"),
        (0, 4, True, {"order": "own"}, "changes-order"),
        (0, 4, True, {"order": "fixed"}, "same-order"),
        (4, 0, False, {}, "changes-order"),
        (2, 4, True, {}, "changes-order"),
        (0, 4, False, {"iterable": True}, "may-duplicate"),
        (2, 4, False, {"iterable": True, "shards": False}, "may-duplicate"),
        (2, 4, False, {"iterable": True, "shards": True}, "changes-order"),
        (0, 1, False, {"iterable": True}, "changes-order"),
        (4, 4, True, {"iterable": True, "shards": False}, "changes-order"),
    ],
)
def test_the_effect_of_a_number_of_workers(now, then, persistent, differs, effect) -> None:
    assert of_workers(loader(now, **differs), then, persistent=persistent) == effect


@pytest.mark.parametrize(
    ("now", "differs", "effect"),
    [
        (2, {}, "changes-order"),
        (
            2,
            {"order": "shared", "draws": False},
            "changes-order",
        ),  # that the samples draw nothing says nothing of the loop
        (2, {"order": "fixed"}, "same-order"),
        (0, {"order": "own"}, "same-order"),
        (0, {"iterable": True}, "may-duplicate"),
    ],
)
def test_work_that_is_moved_to_workers_draws_there(now, differs, effect) -> None:
    assert of_moved_work(loader(now, **differs), 4) == effect
    assert of_moved_work(None, 4) == "changes-order"


ADVISORS = Path(advisors.__path__[0])
PAGE = Path(__file__).resolve().parents[1] / "docs" / "effects.md"
WORKERS, MEASURED = "of the workers", "measured"
COMPUTED = {"of_workers": WORKERS, "of_moved_work": WORKERS, "advise_pause": MEASURED}


def _of(path: Path) -> set[str]:
    """Return the effects that an advisor can give: those in its text, and how it has others worked out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return (words & set(get_args(Effect))) | {COMPUTED[name] for name in calls & COMPUTED.keys()}


@pytest.mark.skipif(not PAGE.exists(), reason="an installed wheel has no docs")
def test_the_page_says_of_each_advisor_what_it_says() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    page = {name: set(effects.replace("`", "").split(", ")) for name, effects, support in rows if support.strip()}
    said = {p.stem.replace("_", "-"): _of(p) for p in ADVISORS.glob("*.py") if p.stem != "__init__"}
    said["preprocessing-in-loop"].add("changes-order")  # by `of_moved_work`
    said["worker-restart"].discard("same-order")  # what it compares with
    assert page == said


@pytest.mark.skipif(not PAGE.exists(), reason="an installed wheel has no docs")
def test_the_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[a-z_/]+\.py)`", PAGE.read_text(encoding="utf-8")))
    assert named
    assert [name for name in sorted(named) if not (PAGE.parents[1] / name).exists()] == []
