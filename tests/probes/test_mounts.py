"""The mounts probe."""

import pytest

from gputune.core.sample import Note, Unavailable
from gputune.probes import mounts

INFO = "27 1 254:0 / / rw - ext4 /dev/vda rw\n22 27 0:21 / /proc rw - proc proc rw\n"
SHARE = "41 27 0:45 / /data rw - cifs //me:{secret}@server/share rw\n"


def test_tells_each_mount_once_and_new_ones_when_they_come(machine) -> None:
    machine.write("proc/100/mountinfo", INFO)
    ticks = mounts.attach(machine.target())
    root = Note(-1, {"n": "mount", "device": "254:0", "kind": "ext4", "source": "/dev/vda", "point": "/"})
    assert next(ticks) == [root]
    assert next(ticks) == []
    machine.write("proc/100/mountinfo", INFO + SHARE.format(secret="x"))
    (note,) = next(ticks)
    assert note.fields["point"] == "/data"


def test_a_secret_in_a_source_stays_where_it_is(machine) -> None:
    machine.write("proc/100/mountinfo", "41 27 0:45 / /data rw - fuse.sshfs sftp://me:hunter2@server/a rw\n")
    (note,) = next(mounts.attach(machine.target()))
    assert "hunter2" not in str(note.fields)


def test_a_command_that_has_ended_changes_nothing(machine) -> None:
    machine.write("proc/100/mountinfo", INFO)
    ticks = mounts.attach(machine.target())
    assert len(next(ticks)) == 1
    (machine.proc / "100" / "mountinfo").unlink()
    assert next(ticks) == []


def test_a_command_that_ended_before_anybody_looked_is_no_failure(machine) -> None:
    assert next(mounts.attach(machine.target(100))) == []


def test_a_file_that_cannot_be_read_is_said(machine) -> None:
    machine.process(100)
    with pytest.raises(Unavailable, match="mountinfo"):
        next(mounts.attach(machine.target()))
