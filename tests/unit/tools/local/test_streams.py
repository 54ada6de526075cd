"""A command whose streams are closed, broken or full ends as it would else."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepbench_tools.local.processes import identify, spawn
from stepbench_tools.local.streams import MessageStream, data_console, message_console

SCHEMA = [sys.executable, "-m", "stepbench_tools.cli", "schema"]
BAD = [sys.executable, "-m", "stepbench_tools.cli", "validate", "/nowhere.json"]
FULL = Path("/dev/full")


def shell(command: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a shell's redirection."""
    words = " ".join(command)
    return subprocess.run(
        ["bash", "-c", f"{words} {redirection}"], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-", "<&- 2>&-"])
def test_data_comes_whatever_becomes_of_messages_and_stdin(redirection: str) -> None:
    """A message that nobody reads is none of the result."""
    done = shell(SCHEMA, redirection)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("{")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_the_exit_code_stands_without_a_message(redirection: str) -> None:
    """A script has only that."""
    done = shell(BAD, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_data_that_could_not_be_written_is_a_failure_that_says_so() -> None:
    """It is said once, by us, and not at Python's end."""
    done = shell(SCHEMA, "> /dev/full")
    assert (done.returncode, done.stderr.count("No space left on device"), done.stderr.count("\n")) == (4, 1, 1)


@pytest.mark.parametrize("redirection", ["<&- >&- 2>&-", "2>/dev/full", "> /dev/full", "2>&1 | true"])
def test_an_environment_is_ended_whatever_becomes_of_its_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redirection: str
) -> None:
    """`down` is what a service manager or a cron job calls, with streams of its own taste."""
    monkeypatch.setenv("STEPBENCH_HOME", str(tmp_path))
    server = identify(spawn(["sleep", "600"], log=tmp_path / "logs" / "server.log"))
    assert server is not None
    assert shell([sys.executable, "-m", "stepbench_tools.cli", "down"], f"{redirection}").returncode == 0
    assert server.find() is None


def test_who_reads_no_further_is_told_nothing() -> None:
    """As with `head`."""
    done = shell(SCHEMA, "| head -c 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")


def test_a_closed_stream_s_number_goes_to_no_server() -> None:
    """Without stderr, the first socket would be number 2, and get what children write there."""
    program = (
        "import os, socket, stepbench_tools.local.streams as s\n"
        "with s.dropping_messages(): print(socket.socket().fileno(), os.readlink('/proc/self/fd/2'))"
    )
    done = shell([sys.executable, "-c", f'"{program}"'], "2>&-")
    number, target = done.stdout.split()
    assert int(number) > 2
    assert target == os.devnull


def test_messages_go_through_to_a_stream_that_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    """And its other attributes are its own."""
    stream = MessageStream(sys.stdout)
    assert (stream.write("text"), stream.encoding) == (4, sys.stdout.encoding)
    stream.flush()
    assert capsys.readouterr().out == "text"


def test_data_goes_out_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would make a picture of `:key:`, and `--json` promises the very file."""
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    data_console().print('{"path": "/tmp/:key:/[red]"}', soft_wrap=True, markup=False, highlight=False)
    assert stdout.getvalue() == '{"path": "/tmp/:key:/[red]"}\n'


def test_words_in_a_log_file_are_not_cut_to_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI's logs have no terminal, and the table's columns would be dropped for want of width."""
    monkeypatch.setattr(sys, "stderr", sys.__stdout__)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert message_console().width == 200
