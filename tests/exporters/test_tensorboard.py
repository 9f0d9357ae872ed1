"""The verdict stands in the log folder that the script's own SummaryWriter wrote to."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune import exporters
from gputune.core.errors import GputuneError
from gputune.exporters import ExportRequest
from gputune.verdict.document import Verdict

pytest.importorskip("tensorboard", reason="tensorboard is not installed")
Judged = Callable[..., tuple[Path, Verdict]]
BEGIN = """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("logs/mine")
def begin():
    return lambda step, loss: writer.add_scalar("loss", loss, step)
end = writer.close
"""


def texts(folder: Path) -> dict[str, str]:
    """Return the texts of a log folder, and of scalars the last value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    told = {tag: found.Tensors(tag)[-1].tensor_proto.string_val[0].decode() for tag in found.Tags()["tensors"]}
    return {**told, **{tag: str(found.Scalars(tag)[-1].value) for tag in found.Tags()["scalars"]}}


def test_it_stands_beside_what_the_script_logged(watched: Callable[..., Path]) -> None:
    folder = watched(BEGIN, "tensorboard")
    logs = folder.parent / "logs" / "mine"
    assert (folder / "export.log").read_text() == f"tensorboard: {logs}\n"
    found = texts(logs)
    assert "loss" in found
    assert float(found["gputune/batches"]) == 20.0
    assert found["gputune/findings.json"] == f"```json\n{(folder / 'findings.json').read_text()}\n```"


def test_without_a_folder_of_the_script_it_is_one_of_the_run_s_name(
    judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, verdict = judged()
    sent = exporters.export("tensorboard", ExportRequest(run=folder, typed="run", say=print))
    assert sent.where == "runs/run"
    found = texts(tmp_path / "runs" / "run")
    assert found["gputune/says"] == verdict.findings[0].says
    assert float(found["gputune/speedup"]) == 2.0
    assert (
        found["gputune/findings"]
        .splitlines()[2]
        .startswith("| few-workers | high | 0.5 | 1.5 | 2.0 | 2.5 | it \\| waits |")
    )


def test_where_it_is_to_go_may_be_said(judged: Judged, tmp_path: Path) -> None:
    folder, _ = judged({"n": "tracker", "kind": "tensorboard", "id": "x", "folder": str(tmp_path / "theirs")})
    exporters.export("tensorboard", ExportRequest(run=folder, typed="run", say=print, out=tmp_path / "said"))
    assert (tmp_path / "said").is_dir()
    assert not (tmp_path / "theirs").exists()


def test_a_folder_that_somebody_else_has_named_is_not_written(judged: Judged, tmp_path: Path) -> None:
    folder, _ = judged({"n": "tracker", "kind": "tensorboard", "id": "x", "folder": str(tmp_path / "nowhere")})
    with pytest.raises(GputuneError, match="is not there, or not yours"):
        exporters.export("tensorboard", ExportRequest(run=folder, typed="run", say=print))
    assert not (tmp_path / "nowhere").exists()


def test_neither_torch_nor_tensorflow_is_imported() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['tensorflow'] = None\n"
        "from gputune.exporters import tensorboard\nfrom gputune.exporters._told import ExportedVerdict\n"
        "from pathlib import Path\nimport msgspec\nfrom gputune.verdict.document import Verdict\n"
        "v = msgspec.convert({'command': [], 'exit_code': 0, 'wall_s': 1.0, 'samples_per_s': 2.0, 'batches': 1,"
        " 'device': {'name': None, 'busy': None}, 'loaders': [], 'ledger': [], 'findings': [],"
        " 'overhead': {}, 'unavailable': []}, Verdict)\n"
        "tensorboard._write(sys.argv[1], ExportedVerdict(v, b'{}', None))"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        assert subprocess.run([sys.executable, "-c", code, folder], check=False, timeout=120).returncode == 0
