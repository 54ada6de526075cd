"""
All benchmarks, or some, one after the other; then `docs/performance.md` and its chart from all results that there are.

    python -m benchmarks [names…] [--rounds N] [--quick]

Each runs in a process of its own: what one leaves behind in memory, threads or affinity is no burden of the next. One
that lacks its comparator is skipped, with the remedy; one that fails is named, and the others run on. `--quick` shows
that all of them work: its results go to `.stepbench/bench/quick/`, and the page stays as it is. What a person has to
say of a result (why a goal is missed, with a profile, and what would close the gap) is `benchmarks/results/<name>.md`,
which the page takes over below the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import chart, page
from benchmarks.command import RESULTS, ROOT, SKIPPED, TOOLS
from benchmarks.result import Result

NAMES = (
    "put_item",
    "redis",
    "etcd",
    "postgresql",
    "lateness",
    "sustained",
    "records",
    "receiver",
    "analysis",
    "overhead",
    "ycsb",
)
"""In the page's order. `omission`, `coverage`, `stopping` and `slices` answer other questions, and are run by hand."""
PAGE = ROOT / "docs" / "performance.md"
CHART = ROOT / "docs" / "images" / "performance.svg"
_LIMIT_S = 3_600
_GRACE_S = 30
"""For a benchmark that is to end, to stop its servers: they live in sessions of their own, and would outlive it."""


class Ended(NamedTuple):
    """How a benchmark ended. status: 0, or `SKIPPED`, or that of a failure. why: the end of what it said of that."""

    name: str
    status: int
    why: str

    def words(self) -> str:
        """For the terminal."""
        what = "skipped" if self.status == SKIPPED else "failed"
        return f"`{self.name}` {what}: {self.why}"


def run(name: str, options: list[str]) -> Ended:
    """One of them, its output on ours."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    print(f"\n$ python -m benchmarks.{name} {' '.join(options)}", flush=True)
    with tempfile.TemporaryFile(mode="w+") as said:
        # In a group of its own, so that a Ctrl-C interrupts it once, by us, and not again while it stops its servers.
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=said, process_group=0)
        try:
            status = awaited(child)
        except subprocess.TimeoutExpired:
            return Ended(name, 1, f"not done in {_LIMIT_S} s")
        said.seek(0)
        lines = said.read().strip().splitlines()
    if lines:
        print("\n".join(lines), file=sys.stderr, flush=True)
    return Ended(name, status, lines[-1] if lines else f"status {status}")


def awaited(child: subprocess.Popen[bytes], limit_s: float = _LIMIT_S, grace_s: float = _GRACE_S) -> int:
    """
    The exit status of a leader of its group; interrupted, it is too, and has time to clean up.

    Raises:
        subprocess.TimeoutExpired: it was not done in `limit_s`, and has ended.
    """
    try:
        return child.wait(limit_s)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace_s)
        raise
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def kept(directory: Path = RESULTS) -> list[Result]:
    """The results that there are, in the page's order."""
    files = [directory / f"{name}.json" for name in NAMES]
    return [Result.model_validate_json(file.read_bytes()) for file in files if file.exists()]


def rendered(results: list[Result], directory: Path = RESULTS) -> str:
    """The page, with the remarks that lie beside the results, and the names of what there is no result of."""
    have = [each.benchmark for each in results]
    written = {name: directory / f"{name}.md" for name in have}
    remarks = {name: file.read_text(encoding="utf-8") for name, file in written.items() if file.exists()}
    return page.page(results, remarks, [name for name in NAMES if name not in have])


def render() -> None:
    """Write the page and its chart, from what lies in the directory of results."""
    results = kept()
    PAGE.write_text(rendered(results), encoding="utf-8")
    CHART.write_text(chart.svg(results), encoding="utf-8")
    print(f"\n{PAGE.relative_to(ROOT)}: {len(results)} of {len(NAMES)} benchmarks")


def main() -> None:
    """Exit with 1 if any has failed."""
    parser = argparse.ArgumentParser(description="Run benchmarks and write docs/performance.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default all: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, help="of each; default: its own")
    parser.add_argument("--quick", action="store_true", help="as little as shows that they work; the page stays")
    parser.add_argument("--render", action="store_true", help="run none, write the page anew")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(NAMES)
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    options = ["--into", str(TOOLS / "quick" if asked.quick else RESULTS)]
    options += ["--quick"] if asked.quick else []
    options += ["--rounds", str(asked.rounds)] if asked.rounds else []
    ended = [] if asked.render else [run(name, options) for name in asked.names or NAMES]
    if not asked.quick:
        render()
    for each in ended:
        if each.status:
            print(each.words(), file=sys.stderr)
    sys.exit(any(each.status not in (0, SKIPPED) for each in ended))


if __name__ == "__main__":
    main()
