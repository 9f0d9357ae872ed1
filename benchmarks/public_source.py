"""The code and the data of public scripts: repositories at a pinned commit, patched where a fix is tried.

Nothing of it is part of this project: repositories come from GitHub, or from git directories that are there already,
and the data is made up by the generators in `benchmarks/public/`.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

GENERATORS = Path(__file__).with_name("public")
GITHUB = "https://github.com/"


class NotHere(Exception):  # noqa: N818 - it is no error: a script that cannot run here is listed with this text
    """What a script needs is not to be had on this machine; its text says what."""


def git_dir(repository: str, commit: str, sources: Path | None, cache: Path) -> Path:
    """Return a git directory with that commit: among `sources` if given, else fetched from GitHub into `cache`."""
    if sources is None:
        return _fetched(repository, commit, cache / repository)
    owner, name = repository.split("/")
    for folder in (sources / owner / name, sources / f"{owner}+{name}", sources / name):
        for path in (folder / ".git", folder):
            if _has(path, commit):
                return path
    raise NotHere(f"no git directory of {repository} with {commit[:7]} among the sources given")


def _has(path: Path, commit: str) -> bool:
    command = ["git", f"--git-dir={path}", "cat-file", "-e", commit + "^{commit}"]
    return path.is_dir() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def _fetched(repository: str, commit: str, path: Path) -> Path:
    if not _has(path, commit):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
        command = ["git", f"--git-dir={path}", "fetch", "--quiet", "--depth=1", GITHUB + repository, commit]
        if subprocess.run(command, check=False).returncode:
            raise NotHere(f"GitHub did not give {repository} at {commit[:7]}")
    return path


def empty(tree: Path) -> None:
    """Make a new folder."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)


def unpack(git: Path, commit: str, paths: Sequence[str], tree: Path) -> None:
    """Put the files of a commit (all, or those below `paths`) into `tree`; raises NotHere where one is not there."""
    command = ["git", f"--git-dir={git}", "archive", commit, *paths]
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        raise NotHere(f"git could not give its files: {packed.stderr.decode(errors='replace').strip()[-120:]}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python before 3.11.4 has none
        archive.extractall(tree)


def patch(tree: Path, edits: Sequence[dict[str, str]]) -> None:
    """Replace each `old` text, which is there once, by `new` in its `file`; raises ValueError where it is not so."""
    for edit in edits:
        path = tree / edit["file"]
        text = path.read_text()
        if text.count(edit["old"]) != 1:
            raise ValueError(f"{edit['file']} has {text.count(edit['old'])} times: {edit['old']!r}")
        path.write_text(text.replace(edit["old"], edit["new"]))


def make_data(words: Sequence[str], cache: Path) -> Path:
    """Return the file or folder that a generator makes (`words`: its name and options), made once for all that ask."""
    generator, *options = words
    source = GENERATORS / generator
    key = hashlib.sha256(json.dumps([source.read_text(), options]).encode()).hexdigest()[:16]
    made = cache / f"{source.stem}-{key}"
    if not made.exists():
        new = cache / f"{made.name}.new"
        cache.mkdir(parents=True, exist_ok=True)
        _remove(new)
        subprocess.run([sys.executable, str(source), str(new), *options], check=True)
        new.rename(made)
    return made


def put(made: Path, target: Path) -> None:
    """Copy data to where a script looks for it: what it does to it then is its own."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if made.is_dir():
        shutil.copytree(made, target, dirs_exist_ok=True)
    else:
        shutil.copy(made, target)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
