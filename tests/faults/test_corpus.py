"""What was found once is tried in every `make test`: recordings that are told of in a sentence, programs of a trial."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.row import HERE
from tests.faults.rows import files

CORPUS = HERE / "corpus"
FOUND = json.loads((CORPUS / "files.json").read_text())


@pytest.mark.parametrize("run", sorted(each.parent.name for each in CORPUS.glob("*/run.json")))
def test_a_recording_that_harmed_somebody_once_is_told_of_in_a_sentence(run: str, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "gputune", "report", str(CORPUS / run), "--again")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout
    assert done.stderr.count("error: ") == done.stderr.count("hint: ") == 1
    assert "Traceback" not in done.stderr


def test_programs_that_a_trial_once_met_otherwise(tmp_path: Path) -> None:
    programs = dict(enumerate(FOUND.values()))
    found = dict(zip(FOUND, files.told(tmp_path, programs).values(), strict=True))
    assert {name: why for name, why in found.items() if why} == {}
