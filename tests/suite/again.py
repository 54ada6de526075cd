"""
A suite in which a few tests failed, and those again alone: `python -m tests.suite.again make test`.

The command gets an option for pytest in the environment variable PYTEST_ARGS. If at most five tests failed, and nothing
else went wrong, each gets one second run in a process of its own, unless its module belongs to the change. One that
passes then is unsteady: it is printed as a row for tests/UNSTEADY.md. One that fails twice fails the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.suite.changes import files_of_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST = 5
SECOND_RUNS_S = 1200
"""All of them together; a test for which nothing is left of it has failed."""
END_LIMIT_S = 60
"""For a test's servers to be stopped."""
OUTCOMES = "--outcomes"
PLUGIN = "-p tests.suite.again"
SEEN_LENGTH = 160


class Failure(NamedTuple):
    """A test, and the first line of what it ended with."""

    nodeid: str
    seen: str


class Suite(NamedTuple):
    """How a run of pytest ended: its exit code, tests by outcome, errors of collection, and those that failed."""

    exit_code: int
    counts: dict[str, int]
    uncollected: int
    failures: list[Failure]


# --- what pytest writes down -----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--outcomes`."""
    parser.addoption(OUTCOMES, metavar="FILE", type=Path, help="write there how many passed, and which failed")


def pytest_configure(config: pytest.Config) -> None:
    """Write them, where asked; of xdist's processes the first one hears of all tests. Runs within it write none."""
    os.environ.pop("PYTEST_ARGS", None)
    if (file := config.getoption(OUTCOMES)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(file), "outcomes")


class Recorder:
    """Keeps one outcome a test, the worst of its set-up, call and tear-down."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._exit_code = 0
        self._outcomes: dict[str, str] = {}
        self._seen: dict[str, str] = {}
        self._uncollected = 0

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count modules that cannot be collected."""
        self._uncollected += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure, whatever follows; and what was seen first of it."""
        known = self._outcomes.get(report.nodeid)
        if report.failed:
            self._outcomes[report.nodeid] = "failed"
            self._seen.setdefault(report.nodeid, first_line(report))
        elif known != "failed" and (report.skipped or report.when == "call"):
            self._outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the exit code, which other plugins may have changed."""
        self._exit_code = int(session.exitstatus)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the file; and say before the closing line why no test is run again."""
        outcomes = list(self._outcomes.values())
        counts = {each: outcomes.count(each) for each in ("passed", "failed", "skipped")}
        failures = [Failure(nodeid, seen) for nodeid, seen in self._seen.items()]
        suite = Suite(self._exit_code, counts, self._uncollected, failures)
        self._file.write_text(json.dumps(suite._asdict()), encoding="utf-8")
        if self._exit_code and (reason := refusal(suite)):
            terminalreporter.write_line(f"no second run: {reason}")


def first_line(report: pytest.TestReport) -> str:
    """Return the first line of what a test failed with."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or ["no reason given"]
    return str(lines[0])[:SEEN_LENGTH]


def read(file: Path) -> Suite | None:
    """Return what a run has written; None if it ended before that."""
    try:
        fields: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Suite(**{**fields, "failures": [Failure(*each) for each in fields["failures"]]})


# --- what is run again, and what is said of it -----------------------------------------------------------------


def refusal(suite: Suite) -> str:
    """Return why no test of a suite that did not pass is run again, or nothing."""
    if suite.exit_code != pytest.ExitCode.TESTS_FAILED:
        return f"pytest ended with {suite.exit_code}, not with failed tests alone"
    if suite.uncollected:
        return f"{suite.uncollected} modules could not be collected"
    if len(suite.failures) > MOST:
        return f"{len(suite.failures)} tests failed, and at most {MOST} may"
    return ""


def to_run_again(suite: Suite, changed: set[str] | None) -> list[Failure]:
    """Return tests that get a second run: none that belongs to the change, and none if the change is not known."""
    if refusal(suite) or changed is None:
        return []
    return [each for each in suite.failures if not belongs(each.nodeid.partition("::")[0], changed)]


def belongs(module: str, changed: set[str]) -> bool:
    """Return whether a test module, or a conftest.py that holds for it, is changed."""
    return not changed.isdisjoint({module, *(str(folder / "conftest.py") for folder in PurePosixPath(module).parents)})


def row(failure: Failure, date: str) -> str:
    """Return a row of tests/UNSTEADY.md; its cure is still to be found."""
    cells = (f"`{failure.nodeid}`", date, f"{failure.seen}; alone it passed", "open")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def closing_line(suite: Suite, unsteady: int) -> str:
    """Return how many tests passed at last, both runs together."""
    counts = suite.counts
    passed, failed = counts["passed"] + unsteady, counts["failed"] - unsteady
    return f"{passed} passed, {failed} failed, {counts['skipped']} skipped"


def report(suite: Suite, again: Sequence[Failure], unsteady: Sequence[Failure], date: str) -> Iterable[str]:
    """Yield lines on the second run."""
    twice = [each for each in again if each not in unsteady]
    if unsteady:
        yield "=== unsteady ==="
        yield from (f"{each.nodeid}: failed ({each.seen}), then passed alone" for each in unsteady)
        yield "rows for tests/UNSTEADY.md, to be committed with the next change:"
        yield from (row(each, date) for each in unsteady)
    if twice:
        yield "=== failed twice ==="
        yield from (f"{each.nodeid}: failed ({each.seen}), and again alone" for each in twice)
    if untried := [each for each in suite.failures if each not in again]:
        yield "=== failed, and of this change: no second run ==="
        yield from (each.nodeid for each in untried)
    yield closing_line(suite, len(unsteady))


def passes_alone(nodeid: str, file: Path, limit_s: float) -> bool:
    """Run a test in a process of its own; it has to pass, and neither to be skipped nor to be missing."""
    command = [sys.executable, "-m", "pytest", *PLUGIN.split(), "-p", "no:cacheprovider", f"{OUTCOMES}={file}", nodeid]
    with subprocess.Popen(command) as process:
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
    suite = read(file)
    return process.returncode == 0 and suite is not None and suite.counts["passed"] == 1


def environment_with(file: Path) -> dict[str, str]:
    """Return the environment in which `make test` writes its outcomes to a file."""
    arguments = f"{os.environ.get('PYTEST_ARGS', '')} {PLUGIN} {OUTCOMES}={shlex.quote(str(file))}"
    return {**os.environ, "PYTEST_ARGS": arguments.strip()}


def run_through(command: Sequence[str], **options: Any) -> int:  # noqa: ANN401  # Popen's
    """Run a command to its end; hand an interruption on to it, since timeout(1) has a process group of its own."""
    with subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_LIMIT_S)
            raise


def main(command: Sequence[str]) -> int:
    """Run the command, then what failed in it; return 0 if each test has passed, in the first run or in the second."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="again-") as name:
        folder = Path(name)
        exit_code = run_through(command, env=environment_with(folder / "first"))
        suite = read(folder / "first")
        if exit_code == 0 or suite is None:
            return exit_code
        changed = files_of_change(Path.cwd(), os.environ.get("CHANGE_BASE", ""))
        again = to_run_again(suite, changed)
        if not again:
            if not refusal(suite):
                why = "all of them belong to the change" if changed is not None else "the change is not known"
                sys.stdout.write(f"\nno second run: {why}\n{closing_line(suite, 0)}\n")
            return exit_code
        until_s = time.monotonic() + SECOND_RUNS_S
        unsteady = [
            each
            for number, each in enumerate(again)
            if (left_s := until_s - time.monotonic()) > 0 and passes_alone(each.nodeid, folder / str(number), left_s)
        ]
    lines = report(suite, again, unsteady, datetime.now(UTC).date().isoformat())
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    return int(len(unsteady) < len(suite.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
