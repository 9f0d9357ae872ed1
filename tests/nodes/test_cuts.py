"""Links cut and agents killed at random: a short round of what benchmarks/agents.py does a thousand times."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "agents.py"


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("simulated devices need a C compiler")
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--only", "cuts", "--cuts", "12", "--disturbed", "2"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = {row["name"].rpartition(": ")[2]: row for row in map(json.loads, done.stdout.splitlines())}
    assert figures["rows that were lost"]["value"] == 0
    assert figures["rows that came twice"]["value"] == 0
    assert int(figures["rows that were lost"]["note"].split(", ")[-1].split()[0]) > 12  # of so many
