"""
Unit tests of what a change touches, the nearest first, within a minute: `make quick`, or `make quick BASE=COMMIT`.

Nearest are test modules that are changed, then those that stand where a changed module stands, then those that import
one, then those that import what imports one. What there is no time for is counted and named.
"""

from __future__ import annotations

import argparse
import ast
import signal
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest
from tests.suite.changes import files_being_edited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = Path(__file__).parents[2]
UNIT, LAYOUT = "tests/unit/", "tests/layout/"
IMPORTED_FROM = ("layers/core/src/", "layers/core/charts/", "tools/src/")
SOURCES = ("layers/core/src", "layers/core/charts", "tools/src", "functions", "benchmarks", "tests")
MIRRORS = {
    "layers/core/src/stepbench/": UNIT,
    "layers/core/charts/stepbench_charts/": f"{UNIT}charts/",
    "tools/src/stepbench_tools/": f"{UNIT}tools/",
    "functions/": f"{UNIT}stages/",
    "benchmarks/": f"{UNIT}benchmarks/",
    "tests/": UNIT,
}
"""Where tests of a folder's modules stand."""
DEFINITIONS = {"statemachines/": "tests/statemachines/test_definitions.py"}
LAID_OUT = ("template.yaml", "stacks/", "docs/")
BEGIN_LIMIT_S, LIMIT_S, END_LIMIT_S = 50, 60, 10
"""After the first no test begins, after the second the one that runs is interrupted, after a third it is killed."""
SHARED_BY_TWO = 12
"""Fewer modules are done before a second process has imported anything."""
UNTIL = "--until"
NOT_RUN = pytest.StashKey[set[str]]()
BEGUN = pytest.StashKey[set[str]]()


# --- which modules ---------------------------------------------------------------------------------------------


def module_name(path: str) -> str:
    """Return by what name a file is imported: `stepbench.load.pacer`, `functions.http_api`, `tests.samples.dags`."""
    root = next((each for each in IMPORTED_FROM if path.startswith(each)), "")
    parts = PurePosixPath(path.removeprefix(root)).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(text: str, path: str) -> set[str]:
    """Return modules that a file imports, and names that it imports from them, which may be modules."""
    package = module_name(path).split(".")
    package = package if path.endswith("/__init__.py") else package[:-1]
    found: set[str] = set()
    try:
        tree = ast.parse(text)
    except SyntaxError:  # it is being edited
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            found.update({origin}, (f"{origin}.{alias.name}" for alias in node.names))
    return found


def is_unit_test(path: str) -> bool:
    """Return whether a file has tests that run without servers."""
    return path.startswith((UNIT, LAYOUT)) and PurePosixPath(path).match("test_*.py")


def mirrors(path: str, tests: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the test module of a changed file's own, and those of its folder."""
    room = next((each for each in MIRRORS if path.startswith(each)), None)
    if room is None or path.startswith(UNIT):
        return [], []
    place = PurePosixPath(MIRRORS[room], path.removeprefix(room))
    own = str(place.with_name(f"test_{place.stem}.py"))
    for folder in place.parents:
        if not str(folder).startswith(UNIT):
            break
        if beside := [each for each in tests if PurePosixPath(each).parent == folder]:
            return [each for each in beside if each == own], [each for each in beside if each != own]
    return [each for each in tests if each == own], []


def naming(path: str, texts: Mapping[str, str]) -> list[str]:
    """Return test modules that look at a file which is no module: by where it stands, or by its name in their text."""
    tests = [each for each in texts if is_unit_test(each)]
    found = [test for folder, test in DEFINITIONS.items() if path.startswith(folder)]
    if path.startswith(LAID_OUT):
        found += [each for each in tests if each.startswith(LAYOUT)]
    return found + [each for each in tests if PurePosixPath(path).name in texts[each]]


def below(path: str, tests: Iterable[str]) -> list[str]:
    """Return test modules for which a conftest.py holds."""
    if PurePosixPath(path).name != "conftest.py":
        return []
    return [each for each in tests if PurePosixPath(path).parent in PurePosixPath(each).parents]


def nearest(changed: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """
    Return test modules, each once, the nearest to the change first.

    Args:
        changed: paths of files, those that are gone included.
        texts: every Python file of the checkout by its path.
    """
    changed = sorted(changed)
    tests = sorted(filter(is_unit_test, texts))
    importers = _importers(texts)
    modules = [each for each in changed if each.endswith(".py")]
    mirrored = [mirrors(each, tests) for each in changed]
    direct = importers(modules)
    ranked = [
        [each for each in tests if each in changed],
        [each for own, _ in mirrored for each in own],
        [each for path in changed if not path.endswith(".py") for each in naming(path, texts)],
        [each for _, folder in mirrored for each in folder],
        filter(is_unit_test, direct),
        filter(is_unit_test, importers(each for each in direct if not is_unit_test(each))),
        [each for path in changed for each in below(path, tests)],
    ]
    return list(dict.fromkeys(each for rank in ranked for each in rank))


def _importers(texts: Mapping[str, str]) -> Callable[[Iterable[str]], list[str]]:
    """Return what finds the files that import one of some modules; it reads only files in which their names occur."""

    @cache
    def names_in(path: str) -> set[str]:
        return imported_names(texts[path], path)

    def importers(modules: Iterable[str]) -> list[str]:
        by_last: dict[str, set[str]] = defaultdict(set)
        for name in map(module_name, modules):
            by_last[name.rpartition(".")[2]].add(name)
        found = []
        for path, text in sorted(texts.items()):
            wanted = {name for last, names in by_last.items() if last in text for name in names}
            if wanted and wanted & names_in(path):
                found.append(path)
        return found

    return importers


# --- how long --------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--until`."""
    parser.addoption(UNTIL, metavar="SECONDS", type=float, help="begin no test after this time of time.monotonic()")


def pytest_configure(config: pytest.Config) -> None:
    """Make room for what is left, and hear of modules that begin."""
    config.stash[NOT_RUN], config.stash[BEGUN] = set(), set()
    config.pluginmanager.register(Beginnings(config.stash[BEGUN]), "beginnings")


class Beginnings:
    """Keeps which modules have begun, in whichever process."""

    def __init__(self, begun: set[str]) -> None:
        self._begun = begun

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Keep the module of a test."""
        self._begun.add(nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass over a test for which there is no time, and keep its module's name."""
    until = item.config.getoption(UNTIL)
    if until is None or time.monotonic() < until:
        return None
    item.config.stash[NOT_RUN].add(item.nodeid.partition("::")[0])
    return True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report what this process has passed over, to the one that writes the summary."""
    if hasattr(session.config, "workeroutput"):
        passed_over: set[str] = session.config.stash[NOT_RUN]
        session.config.workeroutput["not_run"] = sorted(passed_over)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Keep what a process has passed over."""
    config: pytest.Config = node.config  # type: ignore[attr-defined] # xdist is untyped
    passed_over: set[str] = config.stash[NOT_RUN]
    passed_over.update(getattr(node, "workeroutput", {}).get("not_run", []))


def not_run(config: pytest.Config, *, interrupted: bool) -> list[str]:
    """Return modules that were passed over, and after an interruption those that had not begun."""
    passed_over: set[str] = config.stash[NOT_RUN]
    begun: set[str] = config.stash[BEGUN]
    if interrupted and config.getoption(UNTIL) is not None:
        return sorted(passed_over | (set(config.args) - begun))
    return sorted(passed_over)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Count and name the modules that were not run, or not to their end."""
    left = not_run(config, interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)
    if left:
        terminalreporter.section(f"time is up: {len(left)} modules not run, or not to their end")
        terminalreporter.write("\n".join([*left, ""]))


def arguments(modules: list[str], until_s: float) -> list[str]:
    """Return pytest's, with a second process where it is worth its start."""
    shared = ["--numprocesses=2", "--dist=loadscope", "--no-loadscope-reorder"]
    return ["-q", f"{UNTIL}={until_s}", *(shared if len(modules) > SHARED_BY_TWO else []), *modules]


def run(command: list[str], limit_s: float) -> int:
    """Run a command and return how it ended; interrupt it after a while, and kill it if that does not help."""
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            return process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def main() -> int:
    """Select and run."""
    began_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="make quick", description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="the commit that the change begins after")
    changed = files_being_edited(ROOT, parser.parse_args().base)
    texts = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
    }
    modules = nearest(changed, texts)
    others = [each for each in sorted(changed) if each in texts and "/test_" in each and not is_unit_test(each)]
    sys.stdout.write(f"{len(changed)} files changed; {len(modules)} modules of unit tests are near them\n")
    if others:
        sys.stdout.write("changed, but no unit tests, left to `make test`: " + " ".join(others) + "\n")
    if not modules:
        return 0
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-p", "tests.suite.quick", *arguments(modules, began_s + BEGIN_LIMIT_S)]
    return run(command, LIMIT_S - (time.monotonic() - began_s))


if __name__ == "__main__":
    sys.exit(main())
