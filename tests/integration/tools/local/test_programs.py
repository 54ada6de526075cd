"""Programs that end by themselves, and those that would not: each wait has an end, and says why it ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import spawn, terminate
from stepbench_tools.local.programs import LogReader, following_logs, run_logged, run_program
from stepbench_tools.local.state import Server, running_server

if TYPE_CHECKING:
    from collections.abc import Iterator
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


LIMIT_S = 60.0
SLEEPS = [sys.executable, "-uc", "import time; print('asking the emulator'); time.sleep(600)"]
SERVES = [sys.executable, "-uc", "import sys; print('no more threads'); sys.stdin.read(); import time; time.sleep(600)"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return a server that runs, and has said something."""
    pid = spawn(SERVES, log=tmp_path / "emulator.log")
    server = running_server("emulator", "MiniStack", "http://127.0.0.1:9", (pid,))
    yield server
    terminate([pid], grace_s=0)


def test_a_program_is_ended_with_the_server_that_it_needs(tmp_path: Path, server: Server) -> None:
    """`sam deploy` would ask a dead emulator again and again, for minutes."""
    looks: list[int] = []

    def look() -> None:
        if not looks:
            terminate([server.processes[0].pid], grace_s=0)
        looks.append(1)

    with pytest.raises(LocalEnvironmentError, match=r"(?s)`sam deploy` was given up, since emulator has ended"):
        run_logged(SLEEPS, "`sam deploy`", log=tmp_path / "sam.log", timeout_s=LIMIT_S, needs=server, look=look)


def test_a_program_that_never_ends_is_ended_and_both_logs_are_shown(tmp_path: Path, server: Server) -> None:
    """What it waits for says in its own log why nothing moves."""
    with pytest.raises(LocalEnvironmentError) as raised:
        run_logged(SLEEPS, "`sam deploy`", log=tmp_path / "sam.log", timeout_s=2, needs=server)
    text = str(raised.value)
    assert text.startswith("`sam deploy` did not end within 2 s")
    assert "asking the emulator" in text
    assert "no more threads" in text
    assert server.runs()


def test_a_program_that_fails_shows_the_end_of_its_log_alone(tmp_path: Path) -> None:
    """Of an earlier one's log nothing is left to mislead."""
    log = tmp_path / "log"
    log.write_text("of yesterday\n")
    with pytest.raises(LocalEnvironmentError, match=r"(?s)it failed with exit code 1.*no such bucket") as raised:
        run_logged([sys.executable, "-c", "raise SystemExit('no such bucket')"], "it", log=log, timeout_s=LIMIT_S)
    assert "yesterday" not in str(raised.value)


def test_a_program_whose_output_is_asked_for_has_its_time_too() -> None:
    """`etcd --version` that hangs would hang every command."""
    with pytest.raises(LocalEnvironmentError, match=r"(?s)the version did not end within 2 s: asking the emulator"):
        run_program(SLEEPS, "the version", timeout_s=2)


def test_a_program_that_cannot_be_started_is_one_clear_error() -> None:
    """A wheel for another architecture, or one that was removed."""
    with pytest.raises(LocalEnvironmentError, match=r"^/no/such does not run on this machine: No such file"):
        run_program(["/no/such"], "the version")
