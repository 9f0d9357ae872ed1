"""What a folder takes on the disk, when anything in it was last written, and whose it is: links are not followed."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from gputune.runs.labels import FILE as LABEL


@dataclass(slots=True)
class SpaceTaken:
    """Bytes on the disk, the latest change of anything in it (s of Unix time), how many of it somebody else's."""

    bytes: int = 0
    changed: float = 0.0
    foreign: int = 0
    device: int | None = None

    def add(self, about: os.stat_result, name: str = "") -> None:
        """Count one file or folder. A label and the folder that it comes into say nothing of the run's age."""
        self.bytes += about.st_blocks * 512  # B: what st_blocks counts, whatever the file system's own blocks are
        self.foreign += about.st_uid != os.geteuid()
        if stat.S_ISDIR(about.st_mode):  # of a file, file systems that lie over others tell the one that it is on
            self.device = about.st_dev if self.device is None else self.device
            self.foreign += about.st_dev != self.device  # a disk that is mounted in it
        elif name != LABEL:
            self.changed = max(self.changed, about.st_mtime)


def taken(folder: Path) -> SpaceTaken:
    """Return what a folder takes with all that is in it; what cannot be read counts as somebody else's."""
    found = SpaceTaken()
    found.add(folder.lstat())
    folders = [str(folder)]
    while folders:
        folders += _inside(folders.pop(), found)
    return found


def _inside(folder: str, found: SpaceTaken) -> list[str]:
    """Count what is in one folder, and return the folders in it."""
    below = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.add(entry.stat(follow_symlinks=False), entry.name)
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
    except FileNotFoundError:  # a run that goes on tidies up
        pass
    except PermissionError:
        found.foreign += 1
    return below
