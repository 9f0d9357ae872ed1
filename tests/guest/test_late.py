"""A guest that comes into a process which runs already, and goes on in another ring when another run begins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputune.core.events import BatchCode

GUEST = Path(__file__).parents[2] / "probes" / "guest"

CODE = """
import sys, importlib.util
{before}
spec = importlib.util.spec_from_file_location("late", sys.argv[1])
late = importlib.util.module_from_spec(spec)
spec.loader.exec_module(late)
print(late.begin(sys.argv[2], 1))
{after}
import torch
from torch.utils.data import DataLoader
def epoch():
    weight = torch.zeros(1, requires_grad=True)
    for batch in DataLoader([torch.tensor(1.0)] * 8, batch_size=2):
        (weight * batch).sum().backward()
epoch()
if len(sys.argv) > 3:
    print(late.begin(sys.argv[3], 1))
    epoch()
"""


def run(code: str, *folders: Path) -> "subprocess.CompletedProcess[str]":
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    return subprocess.run(
        [sys.executable, "-c", code, str(GUEST / "late.py"), *map(str, folders)],
        env=plain, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def batches(folder: Path) -> int:
    from gputune.core.events import Kind
    from gputune.probes.loader import Ring

    count = 0
    for file in folder.glob("*.ring"):
        ring = Ring(file)
        count += sum(
            e.record.kind == Kind.BATCH and not e.record.code & (BatchCode.END | BatchCode.FAILED)
            for e in ring.drain(0)
        )
        ring.close()
    return count


@pytest.mark.parametrize(("before", "after"), [("import torch, torch.utils.data", ""), ("", "")])
def test_it_sees_the_batches_whether_torch_was_there_before_or_not(tmp_path: Path, before: str, after: str) -> None:
    done = run(CODE.format(before=before, after=after), tmp_path)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert batches(tmp_path) == 4


def test_another_run_has_a_ring_of_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    done = run(CODE.format(before="import torch", after=""), first, second)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr
    assert (batches(first), batches(second)) == (4, 4)


def test_theirs_is_left_as_it_was(tmp_path: Path) -> None:
    checks = "import sitecustomize as s; assert s.value == 7; assert s.count == 1, s.count"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import os\nvalue = 7\ncount = 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'own')!r}); sys.modules.pop('sitecustomize', None)"
    rings = tmp_path / "rings"
    rings.mkdir()
    done = run(CODE.format(before=f"{code}\n{checks}\ns.count = 1", after=checks), rings)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    done = run(CODE.format(before="", after=""), tmp_path / "none")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


TWICE = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("late", sys.argv[1])
late = importlib.util.module_from_spec(spec)
spec.loader.exec_module(late)
import torch
from torch.utils.data import DataLoader
loader = DataLoader([torch.tensor(1.0)] * 8, batch_size=2)
weight = torch.zeros(1, requires_grad=True)
def epoch():
    for batch in loader:
        (weight * batch).sum().backward()
epoch()
for folder in sys.argv[2:]:
    assert late.begin(folder, 1)
    epoch()
    late.leave()
    epoch()
    child = os.fork()
    if not child:
        epoch()
        os._exit(0)
    os.waitpid(child, 0)
"""


def notes(folder: Path) -> list[str]:
    from gputune.probes.loader import Ring

    found: list[str] = []
    for file in folder.glob("*.ring"):
        ring = Ring(file)
        found += [str(note["n"]) for note in ring.notes()]
        ring.look()
        assert ring.ended
        ring.close()
    return found


def test_at_rest_nothing_is_written_and_each_run_is_told_all_that_it_needs(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "12"]
    for folder in folders:
        folder.mkdir()
    done = run(TWICE, *folders)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for folder in folders:
        assert batches(folder) == 4
        assert {"process", "loader"} <= set(notes(folder)), folder
        assert sorted(file.suffix for file in folder.iterdir()) == [".hello", ".ring"]


def test_without_torch_nobody_waits_for_it_any_longer(tmp_path: Path) -> None:
    code = (
        TWICE.partition("import torch")[0]
        + """
before = list(sys.meta_path)
assert late.begin(sys.argv[2], 1) and sys.meta_path != before
late.leave()
assert sys.meta_path == before
"""
    )
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_cells_of_a_notebook_are_named_as_its_reader_counts() -> None:
    code = """
import sys, types
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
from gputune_guest import places
assert places.name("/tmp/ipykernel_7/3548382331.py", 9) == "3548382331.py:9"
compiler = types.SimpleNamespace(_filename_map={"/tmp/ipykernel_7/3548382331.py": 3})
shell = types.SimpleNamespace(compile=compiler)
shells = types.SimpleNamespace(InteractiveShell=types.SimpleNamespace(_instance=shell))
sys.modules["IPython.core.interactiveshell"] = shells
assert places.name("/tmp/ipykernel_7/3548382331.py", 9) == "In[3]:9"
del compiler._filename_map
assert places.name("/tmp/ipykernel_7/3548382331.py", 9) == "3548382331.py:9"
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
