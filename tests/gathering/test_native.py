"""What is not there in C is told: by the run's document, by its report, and by `gputune doctor`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.host import checks, native

Make = Callable[..., Any]


def _none(module: str) -> object:
    raise ImportError(module)


def test_what_cannot_be_loaded_is_named() -> None:
    assert native.unbuilt(_none) == ["processes", "rows"]
    assert native.unbuilt(lambda module: module) == []


def test_a_build_of_the_hooks_is_found_by_its_name(tmp_path: Path) -> None:
    assert not native.hooks_are_built(tmp_path)
    (tmp_path / "_fast.c").write_text("")
    assert not native.hooks_are_built(tmp_path)
    (tmp_path / "_fast.abi3.so").write_text("")
    assert native.hooks_are_built(tmp_path)


def test_doctor_says_which_parts_run_in_python_and_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "hooks_are_built", lambda: False)
    monkeypatch.setattr(native, "unbuilt", lambda: ["rows"])
    (row,) = checks.compiled(checks.Roots())
    assert (row.state, row.says) == ("limited", "hooks, rows run in Python, and cost more than in C")
    assert "C compiler" in row.fix
    monkeypatch.setattr(native, "hooks_are_built", lambda: True)
    monkeypatch.setattr(native, "unbuilt", list)
    (row,) = checks.compiled(checks.Roots())
    assert row.state == "ok"


@pytest.mark.parametrize(("told", "lacks"), [(True, False), (False, True), (None, False)])
def test_hooks_are_told_by_the_process_that_they_ran_in(empty: Any, told: bool | None, lacks: bool) -> None:
    empty.process()
    empty.note(0, n="process", **({} if told is None else {"native": told}))
    empty.loader()
    empty.iterator()
    empty.batch()
    run = empty.features()
    assert run.processes[0].native is told
    assert ("hooks" in native.lacking(run)) is lacks
