"""How much of a file came from memory, as the kernel reports it."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest

from stepbench.experiments.transfer.program import page_cache

if TYPE_CHECKING:
    from pathlib import Path

PAGES = 64


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of some pages, just written, and so in memory."""
    made = tmp_path / "file"
    made.write_bytes(os.urandom(PAGES * mmap.PAGESIZE))
    return made


def test_a_file_that_was_just_written_is_in_memory(file: Path) -> None:
    """A read of it would measure the memory."""
    with file.open("rb") as opened:
        assert page_cache.cached_share(opened.fileno(), PAGES * mmap.PAGESIZE) == 1.0


def test_half_of_a_file_counts_as_half(file: Path) -> None:
    """A sparse file's hole has no page until somebody reads it."""
    with file.open("r+b") as opened:
        opened.truncate(2 * PAGES * mmap.PAGESIZE)
        assert page_cache.cached_share(opened.fileno(), 2 * PAGES * mmap.PAGESIZE) == 0.5


def test_an_empty_file_has_no_share(tmp_path: Path) -> None:
    """There is nothing to divide by."""
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as opened:
        assert page_cache.cached_share(opened.fileno(), 0) is None


def test_of_somebody_elses_file_nothing_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says "all of it" there, whatever is true."""
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with file.open("rb") as opened:
        assert page_cache.cached_share(opened.fileno(), PAGES * mmap.PAGESIZE) is None


def test_what_cannot_be_dropped_is_no_failure() -> None:
    """Not every file system can; `cached_share` tells what came of it."""
    reading, writing = os.pipe()
    page_cache.drop_pages(reading)
    assert page_cache.cached_share(reading, 4_096) is None
    os.close(reading)
    os.close(writing)


MOUNTSTATS = """device rootfs mounted on / with fstype rootfs
device /dev/root mounted on /mnt with fstype ext4
device 127.0.0.1:/ mounted on /mnt/files with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.1,rsize=1048576,wsize=1048576,namlen=255,acregmin=3,acregmax=60,hard,noresvport,proto=tcp
\tage:\t9
\tcaps:\tcaps=0x3ffbffff,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tevents:\t2 5 0 0 1 3 8 0 0 8 0 0 0 0 1 0 0 1 0 0 0 0 0 0 0 0 0
\tbytes:\t700 0 0 0 {served} 0 171 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\t        READ: 1 1 0 216 {served} 0 12 12 0
device tmpfs mounted on /tmp with fstype tmpfs
"""
"""As the kernel writes it: a header for each mount, and of NFS what its client did."""


@pytest.mark.parametrize(
    ("folder", "served"),
    [("/mnt/files", 4_096), ("/mnt/files/7", 4_096), ("/mnt/filesystem", None), ("/mnt", None), ("/", None)],
)
def test_what_a_server_has_sent_is_counted_for_its_own_mount(
    folder: str, served: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another mount's traffic would prove nothing of this file."""
    (tmp_path / "mountstats").write_text(MOUNTSTATS.format(served=4_096))
    monkeypatch.setattr(page_cache, "MOUNTSTATS", tmp_path / "mountstats")
    assert page_cache.server_bytes(folder) == served


def test_without_such_a_file_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system has one, and a local folder is no mount of NFS."""
    assert page_cache.server_bytes(str(tmp_path)) is None
    monkeypatch.setattr(page_cache, "MOUNTSTATS", tmp_path / "none")
    assert page_cache.server_bytes(str(tmp_path)) is None
