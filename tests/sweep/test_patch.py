"""The change of a script is one of the call that builds its loader, and of nothing else in the file."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("libcst", reason="the extra `patch`")

from gputune.sweep import patch
from gputune.sweep.patch import NotPatched

SETTINGS = {"num_workers": 6, "prefetch_factor": 4}

# (the call as it is, as it is to be)
CALLS = [
    ("DataLoader(data)", "DataLoader(data, num_workers=6, prefetch_factor=4)"),
    ("DataLoader(data, 8, True)", "DataLoader(data, 8, True, num_workers=6, prefetch_factor=4)"),
    (
        "DataLoader(data, num_workers=args.workers, shuffle=True)",
        "DataLoader(data, num_workers=6, shuffle=True, prefetch_factor=4)",
    ),
    ("DataLoader(data, 8, True, None, None, 2)", "DataLoader(data, 8, True, None, None, 6, prefetch_factor=4)"),
    ("torch.utils.data.DataLoader(data)", "torch.utils.data.DataLoader(data, num_workers=6, prefetch_factor=4)"),
    ("MyDeviceLoader(DataLoader(data), 3)", "MyDeviceLoader(DataLoader(data, num_workers=6, prefetch_factor=4), 3)"),
    ("DataLoader(ImageLoader(root))", "DataLoader(ImageLoader(root), num_workers=6, prefetch_factor=4)"),
    ("FastLoader(SlowLoader(data))", "FastLoader(SlowLoader(data, num_workers=6, prefetch_factor=4))"),
    ("wrap(DataLoader(data), 3)", "wrap(DataLoader(data, num_workers=6, prefetch_factor=4), 3)"),
    (
        "DataLoader(\n    data,  # the data\n    batch_size=8,\n)",
        "DataLoader(\n    data,  # the data\n    batch_size=8,\n    num_workers=6,\n    prefetch_factor=4,\n)",
    ),
]


def script(tmp_path: Path, call: str) -> Path:
    file = tmp_path / "train.py"
    file.write_text(f"# a script\nimport torch\n\nloader = {call}  # here\n\nx  =  [1,2]\n")
    return file


def test_lines_and_remarks_stay_as_they_are(tmp_path: Path) -> None:
    file = script(tmp_path, "DataLoader(\n    data,  # the data\n    batch_size=8,  # small\n)")
    lines = patch.change(file, 4, SETTINGS).after.splitlines()[3:9]
    assert lines == [
        "loader = DataLoader(",
        "    data,  # the data",
        "    batch_size=8,  # small",
        "    num_workers=6,",
        "    prefetch_factor=4,",
        ")  # here",
    ]


def test_a_remark_behind_the_last_argument_stays_behind_it(tmp_path: Path) -> None:
    file = script(tmp_path, "DataLoader(\n    data,\n    batch_size=8  # small\n)")
    assert patch.change(file, 4, SETTINGS).after.splitlines()[3:9] == [
        "loader = DataLoader(",
        "    data,",
        "    batch_size=8,  # small",
        "    num_workers=6,",
        "    prefetch_factor=4",
        ")  # here",
    ]
    file = script(tmp_path, "DataLoader(data, batch_size=8  # small\n)")
    after = patch.change(file, 4, SETTINGS).after
    assert "DataLoader(data, batch_size=8,  # small\n" in after
    assert ast.dump(ast.parse(after).body[1]) == ast.dump(
        ast.parse("loader = DataLoader(data, batch_size=8, num_workers=6, prefetch_factor=4)").body[0]
    )


@pytest.mark.parametrize("odd", ["\f\n", "text = 'a\u2028b'\n", "text = 'a\x85b'\n", "\ufeff"])
def test_the_difference_can_be_applied_whatever_stands_beside_the_call(
    tmp_path: Path, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "train.py"
    before = f"{odd}import torch\nx = 1\nloader = DataLoader(data)\n{odd.strip(chr(0xFEFF))}y = 2\n"
    file.write_bytes(before.encode())
    made = patch.change(file, before[: before.index("loader")].count("\n") + 1, SETTINGS)
    assert made.after == before.replace("(data)", "(data, num_workers=6, prefetch_factor=4)")
    (tmp_path / "the.diff").write_bytes(made.diff.encode())
    subprocess.run(["git", "apply", "the.diff"], check=True, timeout=60)
    assert file.read_bytes() == made.after.encode()


@pytest.mark.parametrize(("before", "after"), CALLS)
def test_the_call_gets_the_settings(tmp_path: Path, before: str, after: str) -> None:
    file = script(tmp_path, before)
    made = patch.change(file, 4, SETTINGS)
    assert ast.dump(ast.parse(made.after)) == ast.dump(ast.parse(f"import torch\nloader = {after}\nx = [1, 2]"))
    assert made.after.startswith("# a script\nimport torch\n\nloader = ")
    assert made.after.endswith("  # here\n\nx  =  [1,2]\n")
    assert file.read_text() == made.before


def test_without_workers_what_only_workers_have_goes(tmp_path: Path) -> None:
    file = script(tmp_path, "DataLoader(data, num_workers=4, prefetch_factor=2, persistent_workers=True)")
    made = patch.change(file, 4, {"num_workers": 0}, no_workers=True)
    assert "loader = DataLoader(data, num_workers=0)  # here" in made.after


def test_the_difference_can_be_applied_and_is_only_where_it_is_asked(tmp_path: Path) -> None:
    file = script(tmp_path, "DataLoader(data)")
    made = patch.change(file, 4, SETTINGS)
    assert "\n-loader = DataLoader(data)  # here\n+loader = DataLoader(data, num_workers=6" in made.diff
    made.write()
    assert file.read_text() == made.after
    with pytest.raises(NotPatched, match="changed meanwhile"):
        made.write()


@pytest.mark.parametrize("here", ["", "beside", "beside/deeper"])
def test_the_difference_can_be_applied_wherever_the_script_lies(
    tmp_path: Path, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / here
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)
    file = script(tmp_path, "DataLoader(data)")
    made = patch.change(Path(os.path.relpath(file)), 4, SETTINGS)
    assert made.base == tmp_path.resolve()
    subprocess.run(["git", "apply"], cwd=made.base, input=made.diff.encode(), check=True, timeout=60)
    assert file.read_text() == made.after


def test_the_difference_of_a_script_behind_a_link_is_one_of_what_the_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    file, link = script(tmp_path / "scripts", "DataLoader(data)"), tmp_path / "train.py"
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    made = patch.change(link, 4, SETTINGS)
    subprocess.run(["git", "apply"], input=made.diff.encode(), check=True, timeout=60)
    assert file.read_text() == made.after


def test_a_loader_of_another_name_is_known_by_its_import(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("from torch.utils.data import DataLoader as DL\n\nloader = DL(data)\n")
    assert patch.change(file, 3, SETTINGS).after.endswith("DL(data, num_workers=6, prefetch_factor=4)\n")


def test_behind_a_link_the_link_stays(tmp_path: Path) -> None:
    file, link = script(tmp_path, "DataLoader(data)"), tmp_path / "link.py"
    link.symlink_to(file)
    made = patch.change(link, 4, SETTINGS)
    made.write()
    assert link.is_symlink()
    assert file.read_text() == made.after


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("DataLoader(**options)", r"`\*\*`"),
        ("make(data)", "no call of a DataLoader"),
        ("join(DataLoader(a), DataLoader(b))", "several calls"),
        ("(", "cannot be parsed"),
    ],
)
def test_what_cannot_be_changed_is_said(tmp_path: Path, call: str, says: str) -> None:
    with pytest.raises(NotPatched, match=says):
        patch.change(script(tmp_path, call), 4, SETTINGS)


def test_a_library_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(NotPatched, match="by a library"):
        patch.change(tmp_path / "lib" / "site-packages" / "x.py", 1, SETTINGS)


def test_nothing_to_change_is_no_difference(tmp_path: Path) -> None:
    assert patch.change(script(tmp_path, "DataLoader(data)"), 4, {}).diff == ""
