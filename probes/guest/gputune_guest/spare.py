"""Where a ring lies when there is no room for it in the folder of the rings: shared memory is small in containers.

The workers of a training put their batches there, so it fills up while the run goes on. The ring is then made in a
folder of the same name beside other temporary files, and a link with the ring's name stands in the folder of the
rings: it needs no room. Where there is no room anywhere, an empty file says so in its name.
"""

import os
import stat

PREFIX = "gputune-rings-"  # as the recorder names the folder: nothing is made beside a folder of another name


def folders(rings):
    """Return the folders that may stand in for `rings`, best first; they need not be there."""
    base = os.path.basename(rings)
    if not base.startswith(PREFIX):
        return []
    places = (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp")  # noqa: S108 - the folder in it is made private
    found = [os.path.join(place, base) for place in places if place]
    return [folder for folder in dict.fromkeys(found) if folder != rings]


def place(make, rings, name):
    """Return what `make(path)` makes in the first folder where there is room. Raises the OSError of the first one."""
    try:
        return make("%s/%s" % (rings, name))
    except OSError as error:
        for folder in folders(rings):
            try:
                made = make("%s/%s" % (_private(folder), name))
                os.symlink("%s/%s" % (folder, name), "%s/%s" % (rings, name))
            except OSError:
                continue
            return made
        raise error


def _private(folder):
    """Make a folder that is ours alone, unless it is that already. Raises OSError where it is somebody else's."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        about = os.lstat(folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise
    return folder


def give_up(rings, role, error):
    """Leave word that there is no ring, and why: in the name of an empty file, which takes no room."""
    name = "%d.%s.%d.none" % (os.getpid(), role, getattr(error, "errno", None) or 0)
    flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open("%s/%s" % (rings, name), flags, 0o600))
