"""docs/recording.md says what is in a run folder, and its lines run as they stand there."""

import re
from pathlib import Path

import pytest

from gputune.recording import load
from gputune.recording.tables import SHAPES

DOCS = Path(__file__).parents[2] / "docs" / "recording.md"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="an installed wheel has no docs")


def examples() -> list[str]:
    """Return the page's examples in Python."""
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


def lines() -> dict[str, str]:
    """Return the one-liners of the page by the tool they use."""
    block, _ = examples()
    return dict(re.findall(r"# (\w+)\n(.+)\n", block))


@pytest.mark.parametrize("tool", ["pandas", "polars", "duckdb"])
def test_the_line_for_each_tool_reads_a_run(tool, finished, monkeypatch) -> None:
    pytest.importorskip(tool)
    monkeypatch.chdir(finished(3))
    scope: dict[str, object] = {}
    exec(lines()[tool], scope)
    if tool == "duckdb":
        ((process, count, wait),) = scope["waits"]
        assert (process, count) == (0, 150)
        assert wait == pytest.approx(1.5)
    else:
        batches = scope["batches"]
        assert len(batches) == 150
        assert list(batches["wait"]) == [0.01] * 150
        assert [str(t)[:10] for t in batches["time"]] == [
            str(t)[:10] for t in load(Path()).tables["batches"]["time"].to_pylist()
        ]


def test_all_tools_agree_on_samples_with_late_columns(finished, monkeypatch) -> None:
    pandas, polars, duckdb = (pytest.importorskip(tool) for tool in ("pandas", "polars", "duckdb"))
    monkeypatch.chdir(finished(2))
    expected = load(Path()).tables["samples"]["memory.job"].to_pylist()
    column = pandas.read_parquet("samples")["memory.job"]
    assert [None if missing else v for v, missing in zip(column, column.isna(), strict=True)] == expected
    assert polars.read_parquet("samples/*.parquet")["memory.job"].to_list() == expected
    assert [v for (v,) in duckdb.sql("""select "memory.job" from 'samples/*.parquet'""").fetchall()] == expected


def test_the_example_of_the_history_in_points_runs(finished, monkeypatch, capsys) -> None:
    _, example = examples()
    folder = finished(3)
    exec(example.replace("gputune-runs/20261121-100106-train", str(folder)), {})
    told = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert told["gpu.busy[0]"].startswith("ratio (")
    assert set(told) == {"gpu.busy[0]", "batches.ready"}


def test_every_table_and_column_is_on_the_page() -> None:
    page = DOCS.read_text()
    for table, shape in SHAPES.items():
        section = page[page.index(f"**`{table}`**") :]
        section = section[: section.find("\n**", 5)]
        assert {name for name in shape.names if f"`{name}`" not in section} == set()
