"""Files leave the page cache where the file system lets them, and it is seen whether they have."""

from pathlib import Path

import pytest

from gputune.proving import caches


def test_only_data_counts(tmp_path: Path) -> None:
    for name in ("a.bin", "b.jpg", "code.py"):
        (tmp_path / name).write_bytes(b"x" * 5000)
    names = tmp_path / "names"
    listed = [tmp_path / "a.bin", tmp_path / "b.jpg", tmp_path / "a.bin", tmp_path / "code.py", tmp_path / "gone.bin"]
    names.write_text("\n".join(map(str, [*listed, "/proc/self/stat", "/usr/lib/x.bin"])) + "\n")
    assert caches.readable(names) == (tmp_path / "a.bin", tmp_path / "b.jpg")


def test_a_script_that_reads_no_file_has_none_to_drop(tmp_path: Path) -> None:
    with pytest.raises(caches.NoFiles):
        caches.readable(tmp_path / "nothing")


def test_what_is_dropped_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(bytes(1 << 20))
    file.read_bytes()
    assert caches.resident([file]) == 1.0
    caches.drop([file, tmp_path / "gone"])
    if caches.resident([file]) == 1.0:
        pytest.skip("the temporary folder is on a file system that keeps its pages")
    assert caches.resident([file]) < 0.5


def test_no_files_and_empty_ones_have_no_pages(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert caches.resident([]) == caches.resident([tmp_path / "empty", tmp_path / "gone"]) == 0.0
