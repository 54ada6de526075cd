"""
Where the time goes: `make test MEASURE=FOLDER` writes it down, and `python -m tests.suite.measuring FOLDER` sums it up.

A line for each test and each fixture that is set up or torn down, with wall and CPU seconds of the test process; and a
line for each module with the CPU seconds of all that its process has started, servers that outlive their parents
included: those are known by the temporary folder that they were given.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

LONG_S = 3.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PARENT, STARTED, USED = 1, 19, (11, 12, 13, 14)
"""Fields of /proc/PID/stat after the command's name: proc(5)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--measure`, which names the folder; each process of the suite writes a file of its own into it."""
    parser.addoption(
        "--measure", metavar="FOLDER", type=Path, help="write seconds and CPU seconds of tests and fixtures there"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin to measure, where asked; the run has its folder by then."""
    worker = getattr(config, "workerinput", {}).get("workerid", "main")
    shared_out = worker == "main" and config.getoption("numprocesses", None)
    if (folder := config.getoption("--measure")) and not shared_out:
        config.pluginmanager.register(Measuring(folder, worker), "measuring")


class Measuring:
    """Writes a line whenever a test, a fixture or a module has ended."""

    def __init__(self, folder: Path, worker: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = (folder / f"{worker}.jsonl").open("w", encoding="utf-8", buffering=1)
        self._worker = worker
        self._began = time.time(), time.process_time()
        self._processes = Processes(worker)
        self._module = "start and collection"
        self._tree_cpu_s = 0.0

    def _write(self, kind: str, began: tuple[float, float], **fields: Any) -> None:  # noqa: ANN401  # JSON
        ended = time.time(), time.process_time()
        line = {
            "kind": kind,
            "worker": self._worker,
            "began_s": round(began[0], 3),
            "wall_s": round(ended[0] - began[0], 4),
            "cpu_s": round(ended[1] - began[1], 4),
            **fields,
        }
        self._file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Measure a test with its fixtures, and its module when it was the last of it."""
        module = item.nodeid.partition("::")[0]
        if self._module != module:
            self._end_module(module)
        began = time.time(), time.process_time()
        try:
            return (yield)
        finally:
            self._write("test", began, name=item.nodeid)
            if nextitem is None:
                self._end_module("")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Measure the making of a fixture, those that it needs not included: they were made before."""
        began = time.time(), time.process_time()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._write(
                    "fixture", began, name=f"{fixturedef.baseid}::{fixturedef.argname}", test=request.node.nodeid
                )

    def pytest_sessionfinish(self) -> None:
        """Write what the last module and the tear-downs of the session took."""
        self._end_module("")
        self._write("process", self._began, name=self._worker)
        self._file.close()

    def _end_module(self, following: str) -> None:
        tree_cpu_s = self._processes.cpu_s()
        began = time.time(), time.process_time()
        self._write("module", began, name=self._module, tree_cpu_s=round(tree_cpu_s - self._tree_cpu_s, 2))
        self._tree_cpu_s, self._module = tree_cpu_s, following


class Processes:
    """CPU seconds of this process, and of all that have its temporary folder in their environment."""

    def __init__(self, worker: str) -> None:
        folder = Path(tempfile.gettempdir(), worker)
        folder.mkdir(mode=0o755)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        self._mark = str(folder).encode()
        self._ended_s = 0.0
        self._orphans: dict[tuple[str, str], float] = {}

    def cpu_s(self) -> float:
        """Return them; of orphans that have ended, what was last seen of them."""
        living: dict[tuple[str, str], float] = {}
        orphans: dict[tuple[str, str], float] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(folder.name) != os.getpid() and self._mark not in (folder / "environ").read_bytes():
                    continue
            except OSError:  # it has ended
                continue
            key = folder.name, fields[STARTED]
            living[key] = sum(int(fields[each]) for each in USED) / TICKS_PER_S
            if fields[PARENT] == "1":
                orphans[key] = living[key]
        self._ended_s += sum(seconds for key, seconds in self._orphans.items() if key not in living)
        self._orphans = orphans
        return sum(living.values()) + self._ended_s


def add_up(folder: Path) -> str:
    """Return tables of folders, modules, fixtures and tests, the longest first."""
    lines = [
        json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()
    ]
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        by_kind[line["kind"]].append(line)
    tests: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
    for line in by_kind["test"]:
        for name in names_of(line["name"].partition("::")[0]):
            _add(tests[name], 1, line["wall_s"], line["cpu_s"], 0)
    for line in by_kind["module"]:
        for name in names_of(line["name"]):
            _add(tests[name], 0, 0, 0, line["tree_cpu_s"])
    text = [f"{'tests':>7}{'wall s':>9}{'own CPU':>9}{'all CPU':>9}  folders and modules of 3 s or more"]
    text += [
        f"{n:7.0f}{wall:9.1f}{own:9.1f}{tree:9.1f}  {name}"
        for name, (n, wall, own, tree) in sorted(tests.items())
        if wall >= LONG_S or tree >= LONG_S
    ]
    for kind, limit in (("fixture", 60), ("test", 120), ("process", 10)):
        text += ["", f"{'wall s':>9}{'own CPU':>9}{'began':>9}  {kind}"]
        start = min(line["began_s"] for line in lines)
        text += [
            f"{line['wall_s']:9.1f}{line['cpu_s']:9.1f}{line['began_s'] - start:9.1f}  {line['worker']} {line['name']}"
            for line in sorted(by_kind[kind], key=lambda line: -line["wall_s"])[:limit]
        ]
    return "\n".join(text)


def names_of(module: str) -> list[str]:
    """Return what a module is counted for: all, itself, its folder, and the folder's first two levels."""
    parts = module.split("/")
    return (
        ["(all)", *("/".join(parts[:depth]) for depth in range(2, len(parts) + 1))]
        if len(parts) > 1
        else ["(all)", module]
    )


def _add(sums: list[float], *values: float) -> None:
    sums[:] = [a + b for a, b in zip(sums, values, strict=True)]


if __name__ == "__main__":
    sys.stdout.write(add_up(Path(sys.argv[1])) + "\n")
