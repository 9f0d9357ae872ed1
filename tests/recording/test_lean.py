"""A process that records has no use for numpy, which pyarrow would take along: not at its start, not at its end."""

import subprocess
import sys
from pathlib import Path

from gputune.recording import load

RECORDS = """
import sys
from pathlib import Path
from gputune.recording import Recording, lean
from gputune.core.sample import Metric, Sample

lean()
recording = Recording.create(Path(sys.argv[1]), {"command": ["train"], "pid": 1, "started": 0}, max_size=1 << 20)
recording.take([Sample(Metric("cpu.busy", "cores", "CPUs in use."), n, 1.5) for n in range(3)])
recording.close()
print(recording.broken, *sorted(name for name in ("numpy", "pandas") if name in sys.modules))
"""


def test_a_recording_is_finished_without_numpy_and_reads_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    command = [sys.executable, "-c", RECORDS, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []  # neither trouble nor one of them
    assert len(load(folder).tables["samples"]) == 3
