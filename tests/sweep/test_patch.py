"""The change of a script is one of the call that builds its loader, and of nothing else in the file."""

import ast
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
