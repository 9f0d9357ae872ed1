"""What a page draws: what was recorded, in base units, and nothing else."""

import shutil
from pathlib import Path
from typing import Any

import making
import msgspec
import pytest

from gputune.core.sample import Metric
from gputune.html import plots
from gputune.html.columns import label
from gputune.verdict.document import LedgerRow

SHARE = "share of the training's time"
WAIT = Metric("loader.wait", "ratio", "wait")
SAMPLES = Metric("loader.samples", "1", "samples", kind="counter")


def drawn(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return the plots of a recording by their titles: their lines' values in its middle, by name."""
    found = plots.of(folder, msgspec.structs.replace(making.KINDS["loader"], **changes))
    assert found.data is not None
    shown: Any = found.data["plots"]
    return {
        plot["title"]: {line["name"]: line["mean"][len(line["mean"]) // 2] for line in plot["lines"]} for plot in shown
    }


def test_it_draws_what_was_recorded(recording: Path) -> None:
    found = drawn(recording)
    assert found["device busy"] == {"gpu.busy[0]": pytest.approx(0.4, rel=1e-3)}
    assert found["device memory"] == {"gpu.memory.used[0]": pytest.approx(2e10, rel=1e-3)}
    assert found["CPUs by role"] == {
        "cpu.main": pytest.approx(0.9, rel=1e-3),
        "cpu.workers": pytest.approx(0.7, rel=1e-3),
    }
    assert found["disk"] == {"disk.read[sda]": pytest.approx(5e6, rel=0.01)}
    assert found["pressure: time in which something waited"] == {"pressure.io": pytest.approx(0.02, rel=0.01)}
    assert set(found[SHARE]) == {"loader.wait", "checkpoint", "evaluation"}
    assert found[SHARE]["loader.wait"] == pytest.approx(0.6, rel=0.02)
    assert found["pace"] == {"samples": pytest.approx(320, rel=0.02)}


def test_shares_of_several_processes_are_their_mean(recording: Path) -> None:
    found = drawn(recording, processes=[making.process()] * 2)
    assert found[SHARE]["loader.wait"] == pytest.approx(0.3, rel=0.02)


def test_a_number_a_tick_is_read_before_records_that_say_the_same(tmp_path: Path) -> None:
    folder = making.recorded(tmp_path / "run", 10, extra=[(WAIT, 0.25, ""), (SAMPLES, 80.0, "")])
    shutil.rmtree(folder / "batches")
    found = drawn(folder, wall_s=10.0, processes=[making.process()] * 2)
    assert found[SHARE]["loader.wait"] == pytest.approx(0.25, rel=1e-3)  # a mean already
    assert found["pace"] == {"samples": pytest.approx(80, rel=0.01)}


def test_a_word_that_records_do_not_account_for_has_no_line(recording: Path) -> None:
    spans = {"evaluation": 6.0, "checkpoint": 6.0}  # s: of the latter 1.8 s were recorded
    found = drawn(recording, ledger=[LedgerRow(span=name, seconds=s, share=s / 30) for name, s in spans.items()])
    assert set(found[SHARE]) == {"loader.wait", "evaluation"}


def test_what_was_read_once_is_no_plot(tmp_path: Path) -> None:
    folder = making.recorded(tmp_path / "run", 1)
    titles = [plots.of(folder, msgspec.structs.replace(making.KINDS["loader"], wall_s=s)).data for s in (0.5, 1.0)]
    assert [bool(each) for each in titles] == [True, True]
    for data in titles:
        assert data is not None
        for plot in data["plots"]:  # type: ignore[attr-defined] # rows
            assert any(sum(value is not None for value in line["mean"]) > 1 for line in plot["lines"])


def test_lines_have_names_for_whoever_reads_them_first() -> None:
    called = ["gpu.power[1]", "cpu.rest", "disk.write[sda]", "batches.wait/s", "steps/s[optimizer]", "strange[x]"]
    assert [label(each) for each in called] == [
        "GPU 1", "rest of the job", "written sda", "loader.wait", "steps", "strange[x]"
    ]  # fmt: skip


def test_where_nobody_counted_samples_the_pace_is_that_of_steps(tmp_path: Path) -> None:
    folder = making.recorded(tmp_path / "run", 10, extra=[(SAMPLES, 0.0, "")])
    assert drawn(folder, wall_s=10.0)["pace"] == {"steps": pytest.approx(20, rel=0.02)}


def test_a_short_run_has_points_of_half_a_second_and_a_long_one_no_more_than_a_screen(recording: Path) -> None:
    for wall, points in ((30.0, 60), (1e6, plots.POINTS)):
        found = plots.of(recording, msgspec.structs.replace(making.KINDS["loader"], wall_s=wall))
        assert found.data is not None
        assert len(found.data["times"]) == min(points, 300)  # type: ignore[arg-type] # a list; 300 ticks were recorded


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder = making.recorded(tmp_path / "run", 5)
    for table in ("samples", "batches", "steps"):
        for file in (folder / table).iterdir():
            file.write_bytes(b"PAR1")
    told = plots.told(folder, making.KINDS["loader"])
    assert told["plots"] is None
    assert "`samples/00001.parquet`" in str(told["no_plots"])
    assert str(told["no_plots"]).endswith("cannot be read")
