"""The folders of a run: the one that is kept, the one of the rings, which is gone with the run, and the guest's."""

import fcntl
import os
import stat
import time

from gputune.core.errors import BadUsage, GputuneError

RUNS = "gputune-runs"
IGNORE, IGNORED = ".gitignore", b"*\n"  # in it: recordings are no part of anybody's repository
TAKEN = "taken"  # an empty file in a folder that was named: whoever made it has the folder
PREFIX = "gputune-rings-"
MEMORY = "/dev/shm"  # noqa: S108 - memory that processes share; the folder in it is made private
LEAST_SHM = 32 << 20  # bytes free: a ring takes 320 KiB, and the user's workers need what is there more than we do
TRIES = 100  # names tried for a folder whose name is taken
KERNEL = "ipykernel_launcher"
INTERPRETERS = ("python", "bash", "sh", "torchrun", "accelerate", "env", "uv", "srun")


def claimed(out: str, command: "tuple[str, ...]" = ()) -> str:
    """Return the folder that the user named, made and marked as this run's alone; raise what `chosen` raises.

    Watches that start together, on nodes that share a file system, all see it empty: only one can make the mark.
    """
    folder = chosen(out, command)
    try:
        os.close(os.open(os.path.join(folder, TAKEN), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        raise _refused(out, command) from None
    return folder


def chosen(out: str, command: "tuple[str, ...]" = ()) -> str:
    """Make the folder that the user named and return its path; raise BadUsage unless it is new or empty.

    Raises OSError where it cannot be made.
    """
    if not os.path.lexists(out):
        _make(out)
    if not os.path.isdir(out):
        raise BadUsage(f"`{out}` is not a folder", hint="name a new folder, like `--out run-1`")
    if os.listdir(out):
        raise _refused(out, command)
    return os.path.realpath(out)  # with the mode that it has: where others work in it, they go on; our files are 0600


def _make(out: str) -> None:
    parent = os.path.dirname(os.path.abspath(out))
    try:
        os.makedirs(parent, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadUsage(f"`{out}` lies in what is not a folder", hint="name a new folder, like `--out run-1`") from None
    try:
        os.mkdir(out, 0o700)
    except FileExistsError:  # another watch made it since we looked: whose it is, the mark tells
        return


def _refused(out: str, command: "tuple[str, ...]") -> BadUsage:
    """Return the refusal of a folder that is in use, with the form that joins for a command on several nodes."""
    from gputune.launch import job  # noqa: PLC0415 - only where somebody is refused; it knows of us

    held = any(os.path.exists(os.path.join(out, name)) for name in ("run.json", TAKEN))
    another = f"name a new folder, like `--out {out.rstrip('/')}-2`"
    inside = job.inside(command, out)
    hint = f"for one verdict on all nodes put the watch inside: `{inside}`; or {another}" if inside else another
    return BadUsage(f"`{out}` {'already holds a run' if held else 'is not empty'}", hint=hint)


def fresh(command: "tuple[str, ...]") -> str:
    """Make `gputune-runs/<time>-<name>` in the current folder and return its path. Raises OSError where it cannot."""
    make_runs()
    base = os.path.join(RUNS, f"{time.strftime('%Y%m%d-%H%M%S')}-{name_of(command)}")
    for n in range(1, TRIES):
        folder = base if n == 1 else f"{base}-{n}"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another watch began in this second
            continue
        return os.path.realpath(folder)
    raise FileExistsError(f"{base} and {TRIES} names like it are taken")


def kept_or_trouble(out: "str | None", command: "tuple[str, ...]", troubles: "list[str]") -> str:
    """Return the folder of a run, as it was named or a fresh one; "" with a sentence where it cannot be made.

    Raises what `chosen` raises.
    """
    try:
        return claimed(out, command) if out else fresh(command)
    except OSError as error:
        troubles.append(unwritten(out, error))
        return ""


def unwritten(out: "str | None", error: OSError) -> str:
    """Return in a sentence that there is no folder for a recording."""
    return f"nothing was recorded: `{out or RUNS}` cannot be written ({error.strerror or error})"


def needed(out: "str | None", command: "tuple[str, ...]", else_: str) -> str:
    """Return a run's folder, without which there is nothing to do (`else_`, in words). Raises GputuneError."""
    try:
        return chosen(out) if out else fresh(command)
    except OSError as error:
        from gputune.core.hygiene import clean  # noqa: PLC0415 - not before a command starts

        says = f"{else_}: `{clean(out or RUNS)}` cannot be written ({error.strerror or error})"
        raise GputuneError(says, hint="name a folder that can be: `--out DIR`") from None


def typed(folder: str) -> str:
    """Return a folder as the user would type it: from the current one on, where it lies in that."""
    try:
        short = os.path.relpath(folder)
    except OSError:  # the current folder was removed
        return folder
    return folder if short.startswith("..") else short


def make_runs() -> None:
    """Make the folder of all runs, which no repository is to take in, unless it is there. Raises OSError."""
    try:
        os.mkdir(RUNS, 0o700)
    except FileExistsError:
        return
    try:
        descriptor = os.open(os.path.join(RUNS, IGNORE), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, IGNORED)
        finally:
            os.close(descriptor)
    except OSError:  # then `git status` shows it, and the run is none the worse
        return


def is_kernel(command: "tuple[str, ...] | list[str]") -> bool:
    """Return whether a command is the kernel of a notebook: what ran in it no command runs again."""
    return KERNEL in command


def name_of(command: "tuple[str, ...]") -> str:
    """Return a short file name for a command: its script's, its module's, or its program's.

    What follows `-c` is no name, and may hold a secret, as `NAME=VALUE` may.
    """
    words = []
    for word in command:
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            break
        if word and not word.startswith("-") and "=" not in word:
            words.append(word)
    name = next((word for word in words if word.endswith((".py", ".sh"))), "")
    if not name and "-m" in command[:-1]:
        name = command[command.index("-m") + 1].rpartition(".")[2]
    if not name:
        name = next((word for word in words if not _interprets(word)), words[-1] if words else "run")
    stem = os.path.basename(name.rstrip("/")).removesuffix(".py").removesuffix(".sh")
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in stem)
    return kept.strip(".-")[:40] or "run"  # characters of a script's name in a folder's name


def _interprets(word: str) -> bool:
    return os.path.basename(word).rstrip("0123456789.") in INTERPRETERS


def guest() -> str:
    """Return the folder of the guest, which goes in front of PYTHONPATH."""
    return os.path.realpath(os.path.join(os.path.dirname(os.path.dirname(__file__)), "probes", "guest"))


def rings() -> str:
    """Make a private folder for the rings, in shared memory where there is room, and return its path.

    Raises OSError where there is no place for one.
    """
    last: OSError | None = None
    for place in _places():
        folder = os.path.join(place, f"{PREFIX}{os.getuid()}-{os.getppid()}-{os.urandom(4).hex()}")
        try:
            os.mkdir(folder, 0o700)
        except OSError as error:
            last = error
            continue
        return folder
    raise last or OSError("no place for the rings")


def rings_or_trouble(troubles: "list[str]", of: str = "the training") -> str:
    """Make that folder; where there is no place for one, add a sentence to `troubles` and return an empty string."""
    try:
        return rings()
    except OSError as error:
        troubles.append(f"nothing was heard from inside {of}: no folder for the rings ({error.strerror})")
        return ""


def remove_rings(folder: str) -> None:
    """Remove the folder of the rings, its spare ones (docs/ring.md), and what is in them.

    A guest that still runs keeps its mapping, and nothing else.
    """
    for place in (os.path.dirname(folder), *_temporary()):
        _remove(os.path.join(place, os.path.basename(folder)))


def _remove(folder: str) -> None:
    try:
        if os.lstat(folder).st_uid != os.geteuid():
            return
        for entry in os.scandir(folder):
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        return


def remove_empty(folder: str) -> None:
    """Remove a run folder in which nothing was written, and the folder of all runs where it was the first."""
    try:
        if os.listdir(folder) == [TAKEN]:
            os.unlink(os.path.join(folder, TAKEN))
    except OSError:
        return
    for place in (folder, os.path.dirname(folder)):
        if place == folder or os.path.basename(place) == RUNS:
            try:
                if place != folder and os.listdir(place) == [IGNORE]:
                    os.unlink(os.path.join(place, IGNORE))
                os.rmdir(place)
            except OSError:
                return


def sweep() -> None:
    """Remove the rings of this user's runs whose supervisor and recorder are both gone."""
    found: dict[str, list[str]] = {}
    for place in _everywhere():
        try:
            names = [name for name in os.listdir(place) if name.startswith(f"{PREFIX}{os.getuid()}-")]
        except OSError:
            continue
        for name in names:
            found.setdefault(name, []).append(os.path.join(place, name))
    for same in found.values():  # a spare folder is nobody's to lock: it lives as long as that of the rings
        if all(map(_is_stale, same)):
            remove_rings(same[0])


def supervisors() -> "list[int]":
    """Return the pids in the names of this user's rings: the supervisors of runs that go on, and of some that did."""
    start = f"{PREFIX}{os.getuid()}-"
    found = set()
    for place in _everywhere():
        try:
            names = [name for name in os.listdir(place) if name.startswith(start)]
        except OSError:
            continue
        mine = [name for name in names if _is_mine(os.path.join(place, name))]  # a name is anybody's to choose
        found |= {name.removeprefix(start).partition("-")[0] for name in mine}
    return sorted(int(pid) for pid in found if pid.isdigit())


def hold(folder: str) -> int:
    """Lock the rings as in use for as long as the returned descriptor is open; -1 where that is not possible."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        return -1
    return descriptor


def _is_stale(folder: str) -> bool:
    try:
        about = os.lstat(folder)
        # 60.0 s: a younger folder may belong to a run that has not locked it yet
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or time.time() - about.st_mtime < 60.0:
            return False
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # whoever made it still lives
        return False
    finally:
        os.close(descriptor)
    return True


def _places() -> "list[str]":
    """Return where rings may lie, best first: memory with room to spare, then the folder for temporary files."""
    places = []
    try:
        free = os.statvfs(MEMORY)
        if free.f_bavail * free.f_frsize >= LEAST_SHM:
            places.append(MEMORY)
    except OSError:
        pass
    return places + _temporary()


def _everywhere() -> "list[str]":
    """Return where rings may have been put, when there was room."""
    return list(dict.fromkeys([MEMORY, *_temporary()]))


def _is_mine(folder: str) -> bool:
    try:
        about = os.lstat(folder)
    except OSError:
        return False
    return about.st_uid == os.geteuid() and stat.S_ISDIR(about.st_mode)


def _temporary() -> "list[str]":
    """Return the folders for temporary files that are there."""
    places = [os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp"]  # noqa: S108 - as tempfile does, 5 ms cheaper
    return [place for place in places if place and os.path.isdir(place)]
