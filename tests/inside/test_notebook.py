"""`%%gputune` in a real kernel: the report below the cell, places as its reader counts, and the cell's own errors.

IPython is the user's own, and no part of `dev`: `make loops` has it.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import gputune
from tests.inside.conftest import TRAINING, plain

pytest.importorskip("ipykernel", reason="ipykernel is not installed: `make loops` has it")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: `make loops` has it")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: `make loops` has it")

pytestmark = pytest.mark.slow
LOAD = f"%load_ext gputune\n{TRAINING}"
LOOP = """%%gputune
loader = DataLoader(Slow(), batch_size=4, shuffle=True)
torch.manual_seed(7)
weight = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
losses = []

for batch in loader:
    loss = ((weight - batch) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
len(losses)
"""


def executed(folder: Path, monkeypatch: pytest.MonkeyPatch, *cells: str, **client: Any) -> list[list[Any]]:
    """Run the cells in a kernel of this Python, and return the outputs of each."""
    monkeypatch.setattr("os.environ", {**plain(), "JPY_SESSION_NAME": "mine.ipynb"})
    specs = folder / "kernels" / "kernels" / "own"
    specs.mkdir(parents=True)
    (specs / "kernel.json").write_text(
        json.dumps({"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                    "display_name": "own", "language": "python"})
    )  # fmt: skip
    monkeypatch.setenv("JUPYTER_PATH", str(folder / "kernels"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    running = nbclient.NotebookClient(
        notebook,
        timeout=200,
        kernel_name="own",
        resources={"metadata": {"path": str(folder)}},
        allow_errors=True,
        **client,
    )
    running.execute()
    return [cell.outputs for cell in notebook.cells]


def shown(outputs: list[Any]) -> list[Any]:
    return [output["data"] for output in outputs if output["output_type"] == "display_data"]


def test_the_report_is_shown_and_the_cell_is_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = LOOP.replace("%%gputune\n", "")
    again = "import gputune\nwith gputune.watch(quiet=True) as run:\n    for batch in loader:\n        pass\nrun"
    _, plainly, recorded, same, block, named = executed(
        tmp_path, monkeypatch, LOAD, f"{bare}first = losses", LOOP, "losses == first", again, "str(run.folder)"
    )
    assert plainly == []
    result = next(output for output in recorded if output["output_type"] == "execute_result")
    assert result["data"]["text/plain"] == "60"
    assert same[0]["data"]["text/plain"] == "True"  # bit for bit
    (found,) = shown(recorded)
    assert "60 batches" in found["text/plain"]
    assert found["text/plain"].lstrip().startswith("gputune: mine In[3] ·")
    if importlib.util.find_spec("jinja2"):
        assert found["text/html"].startswith('<iframe srcdoc="&lt;!doctype html&gt;')
        assert 'sandbox="allow-scripts"' in found["text/html"]
    else:
        assert found["text/html"].startswith("<pre>gputune: ")
    (shows,) = block
    assert "60 batches" in shows["data"]["text/plain"]
    assert "-mine" in named[0]["data"]["text/plain"]
    runs = sorted((tmp_path / "gputune-runs").glob("*-mine*"))
    places = [[row.where for row in gputune.load(run).verdict.loaders] for run in runs]
    assert places == [["In[3]:2"], ["In[3]:2"]]  # where it was built, also in the run after that


def test_a_cell_that_fails_is_recorded_and_its_error_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = "%%gputune --out failed\n  \ntrain()\n1 / 0"
    _, outputs, wrong, no_code, quiet, inner = executed(
        tmp_path, monkeypatch, LOAD, failing, "%%gputune --fast\n1", "%%gputune --out none\n1 +",
        "%%gputune --out magics\n%precision 3\nmade = !echo 5\nint(made[0]);",
        "%%gputune --out outer\nget_ipython().run_cell_magic('gputune', '--out inner', 'kept = len(train())')\nkept",
    )  # fmt: skip
    assert "60 batches" in shown(outputs)[0]["text/plain"]
    error = outputs[-1]
    assert (error["output_type"], error["ename"], error["evalue"]) == ("error", "ZeroDivisionError", "division by zero")
    trace = "\n".join(error["traceback"])
    assert "gputune/inside" not in trace
    assert "line 4" in trace
    assert wrong[-1]["ename"] == "BadUsage"
    assert no_code[-1]["ename"] == "SyntaxError"
    assert not (tmp_path / "none").exists()
    assert [output["output_type"] for output in quiet] == ["display_data"]
    first, second = shown(inner)
    assert "another one records this process already" in first["text/plain"]
    assert "60 batches" in second["text/plain"]
    assert not (tmp_path / "inner").exists()


def test_a_cell_that_is_interrupted_has_its_verdict_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = "%%gputune\ntrain()\nimport os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True:\n    pass"
    _, outputs = executed(tmp_path, monkeypatch, LOAD, cell)
    assert "60 batches" in shown(outputs)[0]["text/plain"]
    assert outputs[-1]["ename"] == "KeyboardInterrupt"
