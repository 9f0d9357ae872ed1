"""What was read: batch by batch, epoch by epoch, from which disk and which mount."""

import pytest

from gputune.core.events import FetchCode, Kind, ReadsCode
from gputune.core.mounts import Mount
from gputune.core.sample import Note
from gputune.features import Filing, Variety
from gputune.gathering.storage import GrowthRate

MS = 1_000_000


def read(story, *, asked: int, stored: int, opens: int = 4, took: float = 10, code: int = FetchCode.INLINE) -> None:
    """A batch made in the training process, blocked half of its time, of which a sample was taken."""
    t0, story.at = story.at, story.at + took
    story.record(Kind.FETCH, t0, story.at, code=FetchCode.INLINE, a=round(took / 2 * MS), c=8)
    story.record(Kind.READS, t0, story.at, code=code, a=2 * MS, b=asked, d=stored, e=8, c=opens)
    story.record(Kind.BATCH, t0, story.at, a=1, c=8)


def test_a_sampled_batch_tells_what_it_opened_and_read(story) -> None:
    story.iterator()
    read(story, asked=4000, stored=1000)
    read(story, asked=4000, stored=9000, opens=0, code=FetchCode.INLINE | ReadsCode.DIRECT)
    first, second = story.features().processes[0].loaders[0].reads
    assert (first.opens, first.opening, first.samples, first.asked, first.stored) == (4, 0.002, 8, 4000, 1000)
    assert (first.wall, first.direct) == (0.010, False)
    assert (second.asked, second.direct) == (9000, True)  # mapped pages are read and not asked for


def test_what_the_kernel_does_not_count_is_not_known(story) -> None:
    story.iterator()
    read(story, asked=-1, stored=-1)
    loader = story.features().processes[0].loaders[0]
    assert (loader.reads[0].asked, loader.reads[0].stored) == (None, None)
    assert (loader.epochs[0].asked, loader.epochs[0].stored) == (None, None)


def test_each_epoch_has_its_own_account(story) -> None:
    for number, stored in ((1, 4000), (2, 0)):
        story.iterator(number)
        for _ in range(3):
            t0 = story.at
            story.at += 10
            story.record(Kind.FETCH, t0, story.at, code=FetchCode.INLINE, a=(4 if stored else 9) * MS, c=8)
            story.record(Kind.READS, t0, story.at, code=FetchCode.INLINE, b=4000, d=stored, e=8, c=4)
            story.record(Kind.BATCH, t0, story.at, a=number, c=8)
        story.batch(number, end=True)
    cold, warm = story.features().processes[0].loaders[0].epochs
    assert (cold.asked, cold.stored) == (4000, 4000)
    assert (warm.asked, warm.stored) == (4000, 0)
    assert cold.blocked == pytest.approx(0.006)
    assert warm.blocked == pytest.approx(0.001)


def test_the_folders_of_files_are_known_whoever_read_them(story) -> None:
    story.note(n="reads", device="254:0", folder="/data")
    story.process(1, pid=200, role="worker")
    story.iterator(workers=1)
    story.record(Kind.MEMBER, story.at, story.at, a=1, b=200, c=0)
    story.note(1, n="reads", device="0:45", folder="/mnt/share")
    story.record(Kind.READS, story.at, story.at + 5, 1, b=1, d=1, e=1, c=1)
    story.batch()
    assert story.features().processes[0].folders == {"254:0": "/data", "0:45": "/mnt/share"}


def test_what_a_small_file_costs_is_known_of_the_loader_whose_batches_opened_it(story) -> None:
    price = {"n": "files", "naming": 3_000, "opening": 10_000, "ending": 8_000, "kept": True}
    story.note(**price)
    story.loader(id=2, where="train.py:42", num_workers=1)
    story.iterator(1)
    story.iterator(2, loader=2, workers=1)
    story.inline(1)
    story.batch(2)
    mine, others = story.features().processes[0].loaders
    assert mine.filing == Filing(naming=3e-6, opening=1e-5, ending=8e-6, kept=True)
    assert others.filing is None
    story.process(1, pid=200, role="worker")
    story.note(1, **price | {"naming": 0})
    story.record(Kind.MEMBER, story.at, story.at, a=2, b=200, c=0)
    story.record(Kind.READS, story.at, story.at + 5, 1, b=1, d=1, e=1, c=1)
    assert story.features().processes[0].loaders[1].filing.naming == 0


def test_the_disk_that_was_read_most_during_the_loop_is_known(story) -> None:
    for name, rotational in (("sda", True), ("nvme0n1", False)):
        story.gatherer.take([Note(-1, {"n": "disk", "disk": name, "rotational": rotational})])
    story.sample("disk.read", 0, "sda")
    story.sample("disk.read", 0, "nvme0n1")
    story.at += 1000
    story.sample("disk.read", 500e6, "nvme0n1")  # start-up
    story.sample("disk.read", 1e6, "sda")
    story.sample("pressure.io", 0)
    story.iterator()
    for second in range(1, 5):
        for _ in range(100):
            story.batch(wait=5)
            story.step(5)
        story.sample("disk.read", 1e6 + second * 80e6 + (40e6 if second > 2 else 0), "sda")
        story.sample("disk.read", 500e6, "nvme0n1")
        story.sample("disk.busy", 0.9, "sda")
        story.sample("pressure.io", second * 0.25e6)
        story.sample("main.blocked", 0.5)
    story.batch()
    found = story.features().storage
    assert found.disk == "sda"
    assert found.rotational
    assert found.rate == pytest.approx(90e6, rel=0.02)
    assert found.best == pytest.approx(120e6, rel=0.02)
    assert found.busy == pytest.approx(0.9)
    assert found.stalled == pytest.approx(0.25, rel=0.02)
    assert found.main_blocked == pytest.approx(0.5)


def test_without_disks_nothing_is_known_of_them(story) -> None:
    assert story.features().storage is None


DISKS = {"vda": ["254:0", "vda", "254:1", "vda1"], "sdb": ["8:16", "sdb", "253:0", "dm-0", "vg-data"]}


def two_disks(story, *places: tuple[str, str]) -> str:
    """Return which disk is judged where another one than the data set's is read most; batches are of these places."""
    for name, parts in DISKS.items():
        story.gatherer.take([Note(-1, {"n": "disk", "disk": name, "rotational": False, "parts": parts})])
        story.sample("disk.read", 0, name)
    for device, kind, source, point in (
        ("254:1", "ext4", "/dev/vda1", "/"),
        ("0:40", "btrfs", "/dev/mapper/vg-data", "/data"),
        ("0:45", "nfs4", "server:/x", "/share"),
        ("0:50", "overlay", "overlay", "/layers"),
    ):
        fields = {"n": "mount", "device": device, "kind": kind, "source": source, "point": point}
        story.gatherer.take([Note(-1, fields)])
    for device, folder in places:
        story.note(n="reads", device=device, folder=folder)
    story.iterator()
    for second in (1, 2):
        for _ in range(100):
            story.batch(wait=5)
            story.step(5)
        story.sample("disk.read", second * 90e6, "vda")  # somebody's backup
        story.sample("disk.read", second * 10e6, "sdb")
    story.batch()
    return story.features().storage.disk


@pytest.mark.parametrize(
    "places",
    [
        [("8:16", "/data")],  # on the disk itself
        [("253:0", "/data")],  # on a volume of it
        [("0:41", "/data/train")],  # a file system with numbers of its own: by what is mounted
        [("253:0", "/data"), ("0:45", "/share/labels")],
    ],
)
def test_the_disk_that_batches_are_read_from_is_judged_and_not_the_busiest(story, places) -> None:
    assert two_disks(story, *places) == "sdb"


@pytest.mark.parametrize(
    "places", [[], [("0:50", "/layers/data")], [("0:45", "/share")], [("253:0", "/data"), ("0:50", "/layers/data")]]
)
def test_where_batches_are_read_from_a_disk_that_is_not_known_the_busiest_is(story, places) -> None:
    assert two_disks(story, *places) == "vda"


def test_of_two_disks_that_batches_are_read_from_the_one_that_was_read_most_is_judged(story) -> None:
    assert two_disks(story, ("254:1", "/home/me"), ("8:16", "/data")) == "vda"


def test_mounts_are_kept_in_their_order_once(story) -> None:
    fields = {"n": "mount", "device": "0:45", "kind": "nfs", "source": "server:/x", "point": "/data"}
    story.gatherer.take([Note(-1, fields), Note(-1, dict(fields))])
    assert story.features().mounts == (Mount("0:45", "nfs", "server:/x", "/data"),)


def test_a_pace_leaves_out_readings_that_come_too_soon() -> None:
    rate = GrowthRate()
    for t, value in ((0, 0.0), (1000 * MS, 100.0), (1001 * MS, 200.0), (2000 * MS, 250.0)):
        rate.add(t, value)
    assert rate.best == pytest.approx(150.0)
    assert rate.mean == pytest.approx(125.0)


def test_how_many_different_files_there_are_is_known_by_who_has_looked_at_most(story) -> None:
    story.iterator()
    for looked, files in ((8, 8), (32, 20), (16, 3)):
        story.note(n="distinct", looked=looked, files=files, bytes=files * 1000)
    story.note(n="held", bytes=5000)
    story.epoch(5)
    (loader,) = story.features().processes[0].loaders
    assert loader.variety == Variety(looked=32, files=20, size=20_000.0, held=5000.0)
