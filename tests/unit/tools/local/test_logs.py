"""Logs of servers while they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench_tools.local.logs import LogReader, following_logs

if TYPE_CHECKING:
    from pathlib import Path


def append(path: Path, text: str) -> None:
    """Write as a server does."""
    with path.open("a") as file:
        file.write(text)


def test_only_what_is_new_is_shown_and_only_whole_lines(tmp_path: Path) -> None:
    """Logs outlive their environment, and half a line is read again with its other half."""
    log = tmp_path / "etcd.log"
    append(log, "of the last run\n")
    reader = LogReader(tmp_path)
    append(log, "ready\nserv")
    assert list(reader.new_lines()) == ["etcd: ready"]
    append(log, "ing\n\n")
    assert list(reader.new_lines()) == ["etcd: serving", "etcd: "]
    assert list(reader.new_lines()) == []


def test_a_log_that_is_new_or_begins_anew_is_shown_from_its_begin(tmp_path: Path) -> None:
    """Each build removes its log first, and a server's may not be there yet."""
    append(tmp_path / "sam-build.log", "a long line of the build before\n")
    reader = LogReader(tmp_path)
    (tmp_path / "sam-build.log").unlink()
    append(tmp_path / "sam-build.log", "new\n")
    append(tmp_path / "etcd.log", "first\n")
    assert list(reader.new_lines()) == ["etcd: first", "sam-build: new"]


def test_the_last_lines_are_shown_before_the_end(tmp_path: Path) -> None:
    """They say why something did not start."""
    shown: list[str] = []
    with following_logs(tmp_path / "not yet there", shown.append):
        (tmp_path / "not yet there").mkdir()
        append(tmp_path / "not yet there" / "etcd.log", "cannot bind\n")
    assert shown == ["etcd: cannot bind"]
