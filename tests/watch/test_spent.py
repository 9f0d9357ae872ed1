"""What a run cost is told with a device, and with a price alone."""

import json
from pathlib import Path

import pytest

from gputune.recording.about import NotARun
from gputune.report.rejudging import rejudge


def measured() -> bool:
    """Return whether the run so far tells what its device drew."""
    try:
        spent = rejudge(Path("run")).spent
    except NotARun:
        return False
    return spent is not None and spent.by == "device" and spent.energy_j is not None and spent.waiting_j is not None


def test_a_device_that_idled_all_the_time_waited_all_the_time(started, simgpu, eventually) -> None:
    simgpu(devices=1)
    until = ("sh", "-c", "until [ -e enough ]; do sleep 0.1; done")
    watch = started("--price", "3600", "--json", "v.json", "--out", "run", "--", *until)
    eventually(lambda: measured() or watch.poll() is not None)
    Path("enough").touch()
    _, stderr = watch.communicate(timeout=120)
    told = json.loads(Path("v.json").read_text())
    spent = told["spent"]
    assert (spent["by"], spent["devices"], spent["price"]) == ("device", 1, 3600), stderr
    assert spent["device_s"] == pytest.approx(told["wall_s"])
    assert spent["cost"] == pytest.approx(told["wall_s"], rel=1e-3)
    assert spent["waiting_cost"] == pytest.approx(spent["cost"], rel=0.05)
    assert 0 < spent["waiting_j"] <= spent["energy_j"]
    assert "of it while the device waited" in " ".join(stderr.split())


def test_a_price_is_kept_with_the_run(watch, run_folder) -> None:
    done = watch("--price", "7200", "--", "sleep", "0.5")
    assert "cost " in done.stderr
    assert json.loads((run_folder() / "run.json").read_text())["price"] == 7200


def test_without_a_price_and_a_device_nothing_is_said(watch) -> None:
    assert "cost" not in watch("--", "true").stderr
