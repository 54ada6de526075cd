"""Options of the fault tour, an environment for each process that runs it, and the table of its results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.faults.cases import HOME, Case, every_case, tour
from tests.faults.judging import Verdict, table
from tests.faults.surroundings import Surroundings, fresh_surroundings

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

RUN_S = 14
CASE_S = 50
"""What a case takes beside two others, with the run after it and its share of the environments started again."""
VERDICT, CLEAN = "verdict", "clean"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tour be chosen and kept."""
    group = parser.getgroup("faults")
    group.addoption("--seed", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}"), help="of the tour; today's date")
    group.addoption("--full", action="store_true", help="every process, fault, moment and store")
    group.addoption("--clean", type=int, default=0, metavar="N", help="instead of the tour: N runs without a fault")
    group.addoption("--results", type=Path, metavar="FILE", help="keep the table as JSON")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect either clean runs or the others."""
    if collection_path.name.startswith("test_"):
        return bool(config.getoption("clean")) != (collection_path.name == "test_clean_runs.py")
    return None


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to run this tour again, and how long it takes."""
    if clean := config.getoption("clean"):
        return f"fault tour: {clean} runs without a fault, about {clean * RUN_S / 60:.0f} minutes"
    cases, seed = _cases(config), config.getoption("seed")
    workers = config.getoption("numprocesses", None) or 1
    return f"fault tour: SEED={seed}, {len(cases)} cases, about {len(cases) * CASE_S / 60 / workers:.0f} minutes"


def _cases(config: pytest.Config) -> list[Case]:
    return list(every_case(idle=True)) if config.getoption("full") else tour(config.getoption("seed"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each case, and of each clean run."""
    if "clean_run" in metafunc.fixturenames:
        metafunc.parametrize("clean_run", range(metafunc.config.getoption("clean")))
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", _cases(metafunc.config), ids=str)


@pytest.fixture(scope="session")
def shared() -> Iterator[Surroundings]:
    """Return an environment that is started when it is first asked for; at the end nothing of it is left."""
    with fresh_surroundings() as surroundings:
        yield surroundings


@pytest.fixture
def surroundings(request: pytest.FixtureRequest) -> Iterator[Surroundings]:
    """Yield the environment, whole and up; one of its own where the case fills the disk of a home."""
    case = request.getfixturevalue("case") if "case" in request.fixturenames else None
    with ExitStack() as stack:
        if case is not None and case.process == HOME:
            found = stack.enter_context(fresh_surroundings(home_disk=True))
        else:
            found = request.getfixturevalue("shared")
        found.ensure_up()
        yield found


@pytest.fixture
def deployment(surroundings: Surroundings) -> Deployment:
    """Return what commands are run on in that environment."""
    return surroundings.deployment


def pytest_configure(config: pytest.Config) -> None:
    """Gather results where they come together: not in a process that xdist has started."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(config.getoption("seed"), config.getoption("results")))


class Results:
    """The results are kept after each case, so that a tour that is cut short has them, and printed at the end."""

    def __init__(self, seed: int, path: Path | None) -> None:
        self._seed, self._path = seed, path
        self._verdicts: dict[str, Verdict] = {}
        self._clean: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a case, or a clean run, has come to."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            fields = cast("list[Any]", value)
            if name == VERDICT:
                self._verdicts[fields[0]] = Verdict(*fields)
            elif name == CLEAN:
                self._clean[fields[0]] = fields[1]
        if self._path is not None:
            cases = [verdict._asdict() for verdict in sorted(self._verdicts.values())]
            document = {"seed": self._seed, "cases": cases, "clean": self._clean}
            self._path.write_text(json.dumps(document, indent=1) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what there is."""
        verdicts = sorted(self._verdicts.values())
        if verdicts:
            terminalreporter.section("fault tour")
            whole = sum(not verdict.problems for verdict in verdicts)
            lines = [*table(verdicts), f"{whole} of {len(verdicts)} cases without a problem; SEED={self._seed}"]
            terminalreporter.write_line("\n".join(lines))
        if self._clean:
            terminalreporter.section("clean runs")
            lines = [f"{run}: {text}" for run, texts in self._clean.items() for text in texts]
            doubted = sum(1 for texts in self._clean.values() if texts)
            share = f"{doubted} of {len(self._clean)}: {doubted / len(self._clean):.0%}"
            lines.append(f"runs without a fault that have a caveat which names one: {share}")
            terminalreporter.write_line("\n".join(lines))
