"""The house is whole: what lies in a room is shipped, documented and tested, and nothing leans the wrong way."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="reading pyproject.toml needs Python 3.11")

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUP = SETTINGS["tool"]["setuptools"]
ROOMS = ("probes", "advisors", "tui")
SECTIONS = ("What it sees:", "Why it matters:", "What to do:", "When it is wrong:", "Sources:")
TEXT = {".py", ".md", ".toml", ".in", ".json", ".c", ".h", ".sh", ".yml", ""}


def members(folder: Path) -> list[str]:
    """Return the names of a room's members: its files, without its helpers."""
    return sorted(file.stem for file in folder.glob("*.py") if not file.name.startswith("_"))


def files(*folders: str) -> Iterator[Path]:
    """Yield the files of the repository in these folders, or those at its top where none is named."""
    for folder in folders or (".",):
        found = (ROOT / folder).rglob("*") if folders else ROOT.glob("*")
        yield from (f for f in found if f.is_file() and not {"__pycache__", ".git"} & {*f.parts} and f.suffix in TEXT)


@functools.cache
def imported(file: Path) -> set[str]:
    """Return every module that a file names in an import statement, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def sources() -> list[Path]:
    """Return every Python file of the package, where it really lies."""
    own = [f for f in files("gputune") if not any(room in f.relative_to(ROOT).parts for room in ROOMS)]
    return [f for f in [*own, *files(*ROOMS)] if f.suffix == ".py"]


def test_every_package_is_shipped() -> None:
    found = {"gputune", *("gputune." + ".".join(f.parent.relative_to(ROOT / "gputune").parts) for f in own_packages())}
    for room in ROOMS:
        for file in (ROOT / room).rglob("__init__.py"):
            found.add("gputune." + ".".join(file.parent.relative_to(ROOT).parts))
    assert set(SETUP["packages"]) == found


def own_packages() -> list[Path]:
    """Return the packages of the hall, without the rooms that are linked into it."""
    inits = [f for f in (ROOT / "gputune").rglob("__init__.py") if f.parent != ROOT / "gputune"]
    return [f for f in inits if f.relative_to(ROOT / "gputune").parts[0] not in ROOMS]


@pytest.mark.parametrize("room", ROOMS)
def test_link_and_map_lead_to_one_place(room: str) -> None:
    assert SETUP["package-dir"][f"gputune.{room}"] == room
    assert (ROOT / "gputune" / room).is_symlink() or not (ROOT / ".git").exists()  # an sdist carries no links
    assert not (ROOT / "gputune" / room).exists() or (ROOT / "gputune" / room).resolve() == (ROOT / room).resolve()


@pytest.mark.parametrize("name", members(ROOT / "advisors"))
def test_every_advisor_is_documented(name: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / "advisors" / f"{name}.py").read_text())) or ""
    assert [s for s in SECTIONS if s not in text] == []
    assert [text.index(s) for s in SECTIONS] == sorted(text.index(s) for s in SECTIONS)
    assert len(text.partition("\n")[0]) <= 120
    assert f"`{name.replace('_', '-')}`" in (ROOT / "docs" / "findings.md").read_text()


@pytest.mark.parametrize("room", ["probes", "advisors", "commands", "exporters"])
def test_every_member_of_a_room_is_tested(room: str) -> None:
    folder = ROOT / room if room in ROOMS else ROOT / "gputune" / room
    tests = {file.stem for file in (ROOT / "tests").rglob("test_*.py")}
    tests |= {f"test_{file.parent.name}" for file in (ROOT / "tests").glob("*/test_*.py")}  # tests/watch/ is many files
    assert [name for name in members(folder) if f"test_{name}" not in tests] == []


def test_no_test_outside_of_a_room_lists_the_room() -> None:
    for room in ("probes", "advisors"):
        known = {f"gputune.{room}.{name}" for name in members(ROOT / room)}
        for file in (ROOT / "tests").rglob("*.py"):
            if room not in file.relative_to(ROOT).parts:
                named = imported(file) & known
                assert len(named) <= 1, f"{file} leans on {sorted(named)}"


def test_the_guest_is_an_island() -> None:
    guest = ROOT / "probes" / "guest"
    for file in guest.rglob("*.py"):
        assert [m for m in imported(file) if m.split(".")[0] == "gputune"] == [], file
    for file in sources():
        if guest not in file.parents:
            assert [m for m in imported(file) if m.startswith(("gputune.probes.guest", "gputune_guest"))] == [], file


def test_every_exception_to_a_rule_carries_its_reason() -> None:
    exception = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma:|fmt:\s*skip)(?P<rest>.*)")
    reason = re.compile(r"(?: - |\] # |# ).{4,}")
    bare = []
    for file in sources():
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            found = exception.search(line)
            if found and "fmt:" not in found.group() and not reason.search(found["rest"]):
                bare.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()}")
    assert bare == []


def test_at_most_three_tests_may_need_a_second_try_and_each_says_why() -> None:
    marks = [line.strip() for file in files("tests") for line in file.read_text("utf-8", "replace").splitlines()]
    flaky = [line for line in marks if line.startswith("@pytest.mark.fl" + "aky")]
    assert len(flaky) <= 3
    assert [line for line in flaky if 'reason="' not in line] == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    forbidden = re.compile(r"(?<![\w}])/(?:wo" + "rk|ro" + "ot)/|/tmp/" + "brief|py" + "pi[.]org|python" + "hosted")
    folders = (*ROOMS, "gputune", "tests", "docs", "examples", "benchmarks", ".ci")
    found = []
    for file in [*files(), *files(*(f for f in folders if (ROOT / f).is_dir()))]:
        text = file.read_text(encoding="utf-8", errors="replace")
        found += [f"{file.relative_to(ROOT)}: {hit.group()}" for hit in forbidden.finditer(text)]
    assert sorted(set(found)) == []


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[Unreleased\]$", text, re.MULTILINE)
