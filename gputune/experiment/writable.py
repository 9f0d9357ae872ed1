"""Where a trial may change files: what the guest cannot keep apart (C code, other programs) is refused elsewhere.

The guest's overlay (`gputune_guest/overlay.py`) keeps apart what Python writes. Behind it stands Landlock, which knows
no exceptions inside of a folder that is allowed: a script that is started among temporary files has no second line.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.experiment.script import Script
from gputune.launch import landlock

# As in `gputune_guest/overlay.py`: what it leaves as it is has to be allowed here; a test compares them.
DEVICES = ("/dev", "/proc", "/sys", "/run")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - named to be left alone
VARIABLES = ("TMPDIR", "TEMP", "TMP")
CACHES = ("__pycache__", ".cache")
CACHED = (  # variables that name a folder in which libraries keep what they may need again
    "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
    "TRITON_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "HF_HOME", "HF_DATASETS_CACHE", "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR", "JAX_COMPILATION_CACHE_DIR",
)  # fmt: skip
MADE = (".cache", ".triton", ".nv", ".config")  # in a home that has none yet: C code makes them, which is refused there
# What starts the training elsewhere, mounts, or gains privileges: the first is not restricted, the others could not.
BEYOND = frozenset({
    "apptainer", "singularity", "podman", "docker", "nerdctl", "bwrap", "unshare", "enroot", "ch-run", "shifter",
    "sudo", "su", "doas", "runuser", "srun", "ssh", "kubectl", "systemd-run",
})  # fmt: skip
MOST_FOLDERS, MOST_ENTRIES = 2000, 50000  # looked through for caches of the project: some 50 ms
LEFT_OUT = frozenset({"node_modules", "site-packages"})
OPEN = "what other C code (HDF5, SQLite, Arrow) and other programs write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writable:
    """The places in which trials may change files, and where the guest keeps apart the rest (`folder`).

    `why`: in words, why Landlock does not stand behind that; "" where it does.
    """

    folder: Path
    places: tuple[str, ...] = ()
    cwd: str = ""
    why: str = ""
    made: tuple[str, ...] = ()  # folders that were not there before

    def asked(self) -> dict[str, Json]:
        """Return what the guest is told of it in GPUTUNE_TRIAL."""
        return {"writes": str(self.folder), **({} if self.why else {"places": list(self.places)})}

    def before(self) -> str:
        """Return what is to be known before the first trial: that not all of the user's is safe; "" where it is."""
        if self.why:
            return opened(self.why)
        if self.allows(self.cwd):
            return f"`{clean(self.cwd, 80)}` lies where trials may write: {OPEN} there goes to your own files, as ever"
        return ""

    def allows(self, path: str) -> bool:
        """Return whether what is at a path may be changed, links in it followed."""
        real = os.path.realpath(path)
        return any(inside(real, os.path.realpath(place)) for place in self.places)

    def refuses(self, path: str) -> bool:
        """Return whether it is Landlock that has refused to change what is at a path, and nobody else."""
        there = path if os.path.lexists(path) else Path(path).parent
        return not self.why and not self.allows(path) and os.access(there, os.W_OK)

    def remove(self) -> None:
        """Remove the folders that were made and have stayed empty."""
        for folder in reversed(self.made):
            with contextlib.suppress(OSError):  # something is in it by now
                Path(folder).rmdir()


def writable(script: Script, folder: Path, more: Sequence[str] = ()) -> Writable:
    """Return where trials of a script may write, whose own folder is `folder`; `more`: what the user allows."""
    program = Path(script.command[0]).name
    why = landlock.missing()
    if "/" in more:
        why = "trials may write everywhere"
    elif program in BEYOND:
        why = f"Landlock does not reach what `{clean(program, 40)}` starts, or would keep it from that"
    elif _driver_waits():
        why = (
            "CUDA has yet to load a part of its driver, which Landlock would forbid (`nvidia-modprobe -u -c 0` does it)"
        )
    if why:
        return Writable(folder=folder, cwd=script.cwd, why=why)
    made = tuple(_made())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = [str(folder), *DEVICES, *_temporary(), *_of_home(script.cwd), *_named(), *_packages(script), *more]
    found += _caches([script.cwd, *(str(Path(file).parent) for file in script.files)])
    places = tuple(place for place in dict.fromkeys(map(_whole, found)) if Path(place).exists())
    return Writable(folder=folder, places=places, cwd=script.cwd, made=made)


def opened(why: str) -> str:
    """Return in words what it means that nothing is refused, for this reason."""
    return f"{why}: {OPEN} in trials goes to your own files, as ever (docs/trials.md)"


def inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _temporary() -> Iterator[str]:
    yield from TEMPORARY
    yield from (os.environ[name] for name in VARIABLES if os.environ.get(name))


def _driver_waits(devices: Path = Path("/dev")) -> bool:
    """Return whether the first program that uses CUDA starts a set-uid one that loads the driver's rest."""
    there = (devices / "nvidiactl").exists()
    return there and not (devices / "nvidia-uvm").exists() and os.geteuid() != 0


def _whole(path: str) -> str:
    """Return a path from the root on, its links not followed, as the guest has it."""
    return os.path.normpath(Path.cwd() / path)


def _home() -> Path:
    return Path(os.path.normpath(Path("~").expanduser()))


def _of_home(cwd: str) -> Iterator[str]:
    """Yield what is hidden in the user's home, where libraries keep theirs, but for what the script works in."""
    try:
        names = sorted(path.name for path in _home().iterdir())
    except (OSError, RuntimeError):  # no home at all
        return
    for path in (str(_home() / name) for name in names if name.startswith(".")):
        if not inside(cwd, path):
            yield path


def _named() -> Iterator[str]:
    yield from (_whole(os.environ[name]) for name in CACHED if os.environ.get(name))


def _made() -> Iterator[str]:
    """Make the folders in which libraries written in C keep theirs, where there are none; yield those."""
    for path in (*(str(_home() / name) for name in MADE), *_named()):
        with contextlib.suppress(OSError):  # it is there, or cannot be
            Path(path).mkdir(mode=0o700)
            yield path


def _packages(script: Script) -> Iterator[str]:
    """Yield the packages of the Python that the command's program belongs to: it keeps there what it has compiled."""
    program = shutil.which(script.command[0])
    if program is not None:
        top = Path(_whole(program)).parent.parent
        yield from map(str, (*top.glob("lib/python3*/site-packages"), *top.glob("lib/python3*/dist-packages")))


def _caches(tops: Iterable[str]) -> Iterator[str]:
    """Yield the caches that lie in folders of the project, nearest first, of not too many."""
    folders = list(dict.fromkeys(tops))
    entries = taken = 0
    for at in folders:  # those that are found on the way come last
        for name, path in _folders(at):
            entries += 1
            # 64 << 10 B that their names may take: half of what Linux allows one variable of an environment
            if entries > MOST_ENTRIES or taken > 64 << 10:
                return
            if name in CACHES:
                taken += len(os.fsencode(path)) + len('"", ')
                yield path
            elif name and not name.startswith(".") and name not in LEFT_OUT and len(folders) < MOST_FOLDERS:
                folders.append(path)


def _folders(at: str) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of each folder in one; ("", "") for each other entry, as these take time too."""
    try:
        with os.scandir(at) as entries:
            for entry in entries:
                yield (entry.name, entry.path) if entry.is_dir(follow_symlinks=False) else ("", "")
    except OSError:
        return
