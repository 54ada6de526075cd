"""A command whose streams are closed, broken or full ends as it would else."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepbench_tools.local.processes import identify, spawn
from stepbench_tools.local.streams import (
    STOP_SIGNALS,
    MessageStream,
    data_console,
    interruptible,
    message_console,
    shielded,
)

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


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_IGN), (signal.SIGHUP, signal.SIG_DFL)],
)
def test_every_way_to_ask_is_an_interrupt(number: signal.Signals, told: signal.Handlers) -> None:
    """`kill` and a closed terminal have to stop a run as Ctrl-C does, also in a job whose shell ignores Ctrl-C."""
    before = signal.signal(number, told)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is told
    finally:
        signal.signal(number, before)


def test_nohup_is_obeyed() -> None:
    """After `nohup stepbench run …` the terminal is closed, and the run goes on over night."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_nobody_interrupts_the_last_clean_up(number: signal.Signals) -> None:
    """A third Ctrl-C must not leave processes either; afterwards signals count again."""
    before = signal.signal(number, signal.SIG_DFL)  # under `nohup`, the tests' own process ignores SIGHUP
    try:
        with interruptible():
            with shielded():
                os.kill(os.getpid(), number)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_a_terminal_is_closed_once() -> None:
    """The kernel says so to the session's leader and to the foreground, which may both be us: the stop goes on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stopped = False
    try:
        with interruptible():
            try:
                os.kill(os.getpid(), signal.SIGHUP)
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGHUP)
                stopped = True
        assert stopped
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
