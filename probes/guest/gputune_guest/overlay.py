"""A folder over the user's files: what a trial writes is put there, and what it reads is looked for there first.

A path keeps its name: `/home/me/out/a.pt` lies in `FOLDER/RUN/home/me/out/a.pt`. Whoever reads, lists or removes what
this process wrote meets it under the name that it was written to, and the user's own files stay as they are.
"""

import _io
import errno
import os
import stat

LARGE = 256 << 20  # bytes; a file of the user's that is larger is not copied to be written into
LINKS = 40  # followed one after the other, as by the system
NOT_THEIRS = ("/dev", "/proc", "/sys", "/run")
SYSTEMS = ("/proc/", "/dev/")  # whose links lead to what a process has open, wherever that lies
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - named to be left alone
CACHES = ("__pycache__", ".cache")
CACHED = (  # variables that name a folder in which libraries keep what they may need again
    "XDG_CACHE_HOME", "PYTHONPYCACHEPREFIX", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
    "TRITON_HOME", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "HF_HOME", "HF_DATASETS_CACHE", "NUMBA_CACHE_DIR",
    "MPLCONFIGDIR", "JAX_COMPILATION_CACHE_DIR",
)  # fmt: skip
SYSTEM = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}  # as they are without us


class TooLarge(Exception):  # noqa: N818 - named for what is the case
    """A file would have to be copied that is larger than `LARGE`."""


class Overlay:
    """Which paths lie over the user's (`made`), and which of the user's were removed (`gone`), for this process.

    `run` keeps trials that share a folder apart: none may begin where another has left its checkpoint. What lies in one
    of the folders `free` is nobody's result, and is written as ever. Where the system lets a trial write in `places`
    alone (None: everywhere), what lies elsewhere is the user's whatever its name: it could not be written as ever.
    """

    def __init__(self, folder, run, free=(), places=None):
        self.root = os.path.join(os.path.abspath(folder), run)
        self.made = set()
        self.gone = set()
        self.links = {}  # made here, to what each was told to name: what it names lies elsewhere
        self.renamed = set()  # files of the user's by their new names: each is a link here, and a file to who looks
        self._here = self.absolute(os.getcwd())
        self._home = os.path.expanduser("~")
        self._places = places
        self._named = tuple(os.path.abspath(os.environ[name]) for name in CACHED if os.environ.get(name))
        temporary = {os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)}
        self._free = tuple(os.path.abspath(one) for one in (folder, *free, *NOT_THEIRS))
        temporary = [os.path.abspath(one) for one in (*temporary, *TEMPORARY)]
        self._temporary = (*temporary, *(os.path.realpath(one) for one in temporary))
        for at, folders, files in os.walk(self.root):  # of the process that started this one
            there = at[len(self.root) :]
            self.made.update(there + "/" + name for name in files)
            self.made.update(there + "/" + name for name in folders if not _there(there + "/" + name))

    @property
    def untouched(self):
        """Return whether every path of the user's is what it seems."""
        return not self.made and not self.gone

    @staticmethod
    def named(path, dir_fd=None):
        """Return a path from the root on as the system takes it, links in it not followed."""
        path = os.fsdecode(path)
        if dir_fd is not None and not os.path.isabs(path):
            path = os.path.join(SYSTEM["readlink"]("/proc/self/fd/%d" % dir_fd), path)
        return _plain(os.path.abspath(_plain(path)))

    def absolute(self, path, dir_fd=None):
        """Return a path as `made` and `gone` have it: by the user's name, wherever the folder lies that we are in."""
        return self.followed(self.theirs_of(self.named(path, dir_fd)))

    def followed(self, path):
        """Return a path without the links that were made here, but for one that it ends with."""
        for _ in range(LINKS if self.links else 0):
            link = next((one for one in self.links if path.startswith(one + "/") and self.named_by(one)), None)
            if link is None:
                break
            target = os.path.join(os.path.dirname(link), self.links[link])
            path = self.theirs_of(os.path.normpath(target)) + path[len(link) :]
        return path

    def followed_to_its_end(self, path):
        """Return what is opened by a path: where it is a link that was made here, the file that it names."""
        for _ in range(LINKS):
            told = self.named_by(path)
            if told is None:
                return path
            path = self.followed(self.theirs_of(os.path.normpath(os.path.join(os.path.dirname(path), told))))
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def straight(self, path):
        """Return a path without the links over which another process has put it: what it writes must lie here."""
        for _ in range(LINKS):
            at = self._link_in(path)
            if at is None:
                return path
            target = os.path.join(os.path.dirname(self.over(at)), SYSTEM["readlink"](self.over(at)))
            path = self.followed(self.theirs_of(os.path.normpath(target)) + path[len(at) :])
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)

    def _link_in(self, path):
        """Return the first folder of a path that is a link here, or None."""
        at = path.find("/", 1)
        while at > 0:
            try:
                mode = SYSTEM["lstat"](self.over(path[:at])).st_mode
            except OSError:
                return None
            if stat.S_ISLNK(mode):
                return path[:at]
            at = path.find("/", at + 1)
        return None

    def beyond(self, path, opens):
        """Return what of the user's a temporary path, or one of the system's, leads to by links; None where to nothing.

        A link that it ends with counts where the path `opens` something: else it is the link itself that is meant.
        """
        if not any(_inside(path, one) for one in (*self._temporary, *NOT_THEIRS)):
            return None
        for _ in range(LINKS):
            link = next((one for one in _ways(path) if (opens or one != path) and _is_link(one)), None)
            if link is None:
                return path if self.theirs(path) else None
            target = _target(link)
            if target is None:
                return None
            path = self.theirs_of(os.path.normpath(target)) + path[len(link) :]
        return None

    def listed(self, path):
        """Return the folder that a path names, though it be a link to one."""
        return os.path.dirname(self.followed(self.theirs_of(_plain(path + "/."))))

    def named_by(self, path):
        """Return what a link that was made here was told to name, None where there is none."""
        link = path in self.links and path in self.made and stat.S_ISLNK(SYSTEM["lstat"](self.over(path)).st_mode)
        return self.links[path] if link else None

    def is_renamed(self, path):
        """Return whether it is a file of the user's that was renamed here, and so no link, whatever lies here."""
        return path in self.renamed and path in self.made and path not in self.links

    def theirs_of(self, named):
        """Return the user's name for a path from the root on, which may be the name that it has here."""
        return named[len(self.root) :] or "/" if _inside(named, self.root) else named

    def theirs(self, path):
        """Return whether an absolute path is the user's to write: no device, no cache, no temporary file."""
        if any(_inside(path, one) for one in self._free):
            return False
        if self._places is None or any(_inside(path, one) for one in self._places):
            if any(_inside(path, one) and not self._works_in(one, path) for one in self._temporary):
                return False
            if self._is_cache(path):
                return False
        try:
            mode = SYSTEM["stat"](path).st_mode
        except OSError:
            return True
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode)

    def _is_cache(self, path):
        """Return whether it lies where libraries keep what they may need again."""
        if any(part in CACHES for part in path.split("/")) or any(_inside(path, one) for one in self._named):
            return True
        if not _inside(path, self._home) or path == self._home:
            return False
        first = path[len(self._home) :].lstrip("/").split("/", 1)[0]
        return first.startswith(".") and not _inside(self._here, os.path.join(self._home, first))

    def _works_in(self, temporary, path):
        """Return whether the script was started in a folder of its own among temporary ones, and `path` lies there."""
        return self._here != temporary and _inside(self._here, temporary) and _inside(path, self._here)

    def over(self, path):
        """Return where a path lies that is over the user's."""
        return self.root + path

    def hidden(self, path):
        """Return whether it, or a folder that it lay in, was removed and nothing is over it."""
        return path not in self.made and self._lost(path)

    def _lost(self, path):
        """Return whether what the user has at a path is out of sight, whatever lies over it."""
        while path != "/":
            if path in self.gone:
                return True
            path = os.path.dirname(path)
        return False

    def real(self, path):
        """Return where to find what an absolute path names. Raises FileNotFoundError where it was removed."""
        if path in self.made:
            return self.over(path)
        if self.gone and self.hidden(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return path

    def exists(self, path):
        """Return whether a path names anything, links not followed."""
        try:
            SYSTEM["lstat"](self.real(path))
        except OSError:
            return False
        return True

    def found(self, path):
        """Return where a path lies that another process has put over the user's, or None."""
        straight = self.straight(path)
        if straight != path:
            return self.real(straight) if self.exists(straight) else self.found(straight)
        over = self.over(path)
        try:
            SYSTEM["lstat"](over)
        except OSError:
            return None
        self.made.add(path)
        return over

    def made_over(self, path):
        """Return where to write a new file of this name. Raises as the system would where its folder is not there."""
        parent = os.path.dirname(path)
        where = self.real(parent)
        if not _there(where):
            where = self.found(parent) or where
        if not stat.S_ISDIR(SYSTEM["stat"](where).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        over = self.over(path)
        made(os.path.dirname(over))
        self.made.add(path)
        return over

    def folder(self, path):
        """Return where a folder lies that somebody writes into by himself."""
        over = self.over(path)
        made(over)
        self.made.add(path)
        return over

    def raised(self, path, keep=True, least=False):
        """Return where to write a file that may be there already, with what it holds where that is to `keep`.

        Raises TooLarge; with `least` a file that is too large is begun anew instead.
        """
        if path in self.made or self.found(path) is not None:
            return self._own(path)
        there = self.exists(path)
        if there and keep and not least and SYSTEM["stat"](path).st_size > LARGE:
            raise TooLarge
        over = self.made_over(path)
        if there and keep and SYSTEM["stat"](path).st_size <= LARGE:
            self._copied(path, over)
        return over

    @staticmethod
    def _copied(path, over):
        """Copy a file to where nobody finds half of it; where another process was faster, its copy stays."""
        half = "%s.%d.half" % (over, os.getpid())
        copy(path, half)
        try:
            SYSTEM["link"](half, over)
        except OSError:  # it is there by now, or this file system has no links
            if not _there(over):
                SYSTEM["rename"](half, over)
                return
        SYSTEM["unlink"](half)

    def _own(self, path):
        """Return where one lies that is over the user's already, and is no link to the user's file any more."""
        over = self.over(path)
        if _there(over) and stat.S_ISLNK(SYSTEM["lstat"](over).st_mode):
            target = SYSTEM["readlink"](over)
            if target.startswith("/") and not _inside(target, self.root):
                SYSTEM["unlink"](over)
                copy(target, over)
        return over

    def names(self, path):
        """Return (names of a folder that are the user's and left, names that lie over it)."""
        self.made.update(path + "/" + name for name in self.put_by_others(path) if not _there(path + "/" + name))
        over = {os.path.basename(one) for one in self.made if os.path.dirname(one) == path}
        if self.gone and self._lost(path):
            return [], sorted(over)
        try:
            theirs = SYSTEM["listdir"](path)
        except FileNotFoundError:
            if path not in self.made and self.found(path) is None:
                raise
            theirs = []
        return [name for name in theirs if name not in over and path + "/" + name not in self.gone], sorted(over)

    def put_by_others(self, path):
        """Return the names that lie over a folder and that this process has not put there."""
        try:
            names = SYSTEM["listdir"](self.over(path))
        except OSError:
            return []
        return [name for name in names if not name.endswith(".half") and path + "/" + name not in self.made]

    def remove(self, path):
        """Remove a file, or a folder with all that is in it."""
        for one in [one for one in self.made if _inside(one, path)]:
            self.made.discard(one)
        _cleared(self.over(path))  # what another process has put there as well
        if _there(path):
            self.gone.add(path)

    def replaced(self, path):
        """Return where to put what takes the place of anything that is at `path`."""
        target = self.made_over(path)
        for one in [one for one in self.made if one != path and _inside(one, path)]:
            self.made.discard(one)
        _cleared(target)
        return target

    def rename(self, old, new):
        """Give what is at `old` the name `new`; what is the user's there is linked to, and out of sight under `old`."""
        source = self.real(old)
        link = self.named_by(old)
        target = self.replaced(new)
        if link is not None:
            self.links[new] = self.links.pop(old)
        if old in self.made:
            left = self.names(old)[0] if stat.S_ISDIR(SYSTEM["lstat"](source).st_mode) else []
            for one in [one for one in self.made if _inside(one, old)]:
                self.made.discard(one)
                self.made.add(new + one[len(old) :])
                if one in self.renamed:
                    self.renamed.add(new + one[len(old) :])
            SYSTEM["rename"](source, target)
            for name in left:
                self.made.add(new + "/" + name)
                self._link(old + "/" + name, target + "/" + name, new + "/" + name)
        else:
            self._link(source, target, new)
        if _there(old):
            self.gone.add(old)

    def _link(self, source, target, name):
        if not stat.S_ISDIR(SYSTEM["stat"](source).st_mode):
            SYSTEM["symlink"](source, target)
            self.renamed.add(name)
            return
        SYSTEM["mkdir"](target)
        for entry in SYSTEM["listdir"](source):
            self.made.add(name + "/" + entry)
            self._link(source + "/" + entry, target + "/" + entry, name + "/" + entry)


def copy(source, target):
    """Copy what a file holds."""
    with _io.open(source, "rb") as there, _io.open(target, "wb") as here:
        while True:
            block = there.read(1 << 20)
            if not block:
                return
            here.write(block)


def _inside(path, folder):
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _ways(path):
    """Yield the folders of a path, from the root on, and the path."""
    at = path.find("/", 1)
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path


def _plain(path):
    """Return a path without the names that the system has for folders of processes (`/proc/self/cwd`): not theirs."""
    for _ in range(LINKS):
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        if not path.startswith(SYSTEMS):
            break
        link = next((one for one in _ways(path) if one != path and _is_link(one)), None)
        target = None if link is None else _target(link)
        if target is None:
            break
        path = target + path[len(link) :]
    return path


def _target(link):
    """Return what a link names, from the root on; None where it cannot be read, or has no name any more."""
    try:
        target = os.path.join(os.path.dirname(link), SYSTEM["readlink"](link))
        if link.startswith(SYSTEMS) and not os.path.samestat(SYSTEM["stat"](link), SYSTEM["stat"](target)):
            return None
    except OSError:
        return None
    return target


def _is_link(path):
    try:
        return stat.S_ISLNK(SYSTEM["lstat"](path).st_mode)
    except OSError:
        return False


def _there(path):
    try:
        SYSTEM["lstat"](path)
    except OSError:
        return False
    return True


def made(path):
    """Have a folder of our own be there, and those that it lies in."""
    if not _there(path):
        made(os.path.dirname(path))
        try:
            SYSTEM["mkdir"](path, 0o700)
        except FileExistsError:  # another process was faster
            return


def _cleared(path):
    """Remove a file or a folder of our own."""
    try:
        mode = SYSTEM["lstat"](path).st_mode
    except OSError:
        return
    if not stat.S_ISDIR(mode):
        SYSTEM["unlink"](path)
        return
    for name in SYSTEM["listdir"](path):
        _cleared(path + "/" + name)
    SYSTEM["rmdir"](path)
