"""Licences are named, holes fail it, and what could not be asked about is no all-clear."""

import json
from pathlib import Path

import pytest

from tests.faults.supply import OURS, holes, needed


def auditor(folder: Path, says: str) -> str:
    """Return a Python whose pip-audit says so."""
    file = folder / "python"
    (folder / "says").write_text(says)
    file.write_text(f"#!/bin/sh\ncat {folder / 'says'}\n")
    file.chmod(0o755)
    return str(file)


def test_each_package_that_a_user_needs_has_a_licence() -> None:
    found = needed("gputune", {}, OURS)
    assert {"click", "msgspec", "pyarrow", "jinja2"} <= found.keys()
    assert not {"ruff", "mypy", "pytest"} & found.keys()
    assert all(found.values())


@pytest.mark.parametrize(
    ("packages", "bad", "words"),
    [
        ([{"name": "click", "version": "1", "vulns": []}], 0, "1 packages were asked about, 0 have holes"),
        ([{"name": "click", "version": "1", "vulns": [{"id": "CVE-1"}]}], 1, "click 1: CVE-1"),
        ([{"name": "click", "skip_reason": "not found"}], 0, "SKIPPED click: nothing could be asked"),
    ],
)
def test_holes_are_counted_and_what_was_not_asked_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], packages: list[dict[str, object]], bad: int, words: str
) -> None:
    assert holes(auditor(tmp_path, json.dumps({"dependencies": packages})), ["click"]) == bad
    assert words in capsys.readouterr().out


def test_an_auditor_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert holes(auditor(tmp_path, ""), ["click"]) == 0
    assert "SKIPPED, nothing was asked" in capsys.readouterr().out
