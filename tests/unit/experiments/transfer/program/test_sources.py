"""How much of a file is in memory, as the kernel tells it."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

import pytest

from stepbench.experiments.transfer.program import sources

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
        assert sources.cached_share(opened.fileno(), PAGES * mmap.PAGESIZE) == 1.0


def test_half_of_a_file_counts_as_half(file: Path) -> None:
    """A sparse file's hole has no page until somebody reads it."""
    with file.open("r+b") as opened:
        opened.truncate(2 * PAGES * mmap.PAGESIZE)
        assert sources.cached_share(opened.fileno(), 2 * PAGES * mmap.PAGESIZE) == 0.5


def test_an_empty_file_has_no_share(tmp_path: Path) -> None:
    """There is nothing to divide by."""
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as opened:
        assert sources.cached_share(opened.fileno(), 0) is None


def test_of_somebody_elses_file_nothing_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says "all of it" there, whatever is true."""
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with file.open("rb") as opened:
        assert sources.cached_share(opened.fileno(), PAGES * mmap.PAGESIZE) is None


def test_what_cannot_be_dropped_is_no_failure() -> None:
    """Not every file system can; `cached_share` tells what came of it."""
    reading, writing = os.pipe()
    sources.drop_pages(reading)
    assert sources.cached_share(reading, 4_096) is None
    os.close(reading)
    os.close(writing)
