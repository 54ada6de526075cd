"""
What every benchmark's command line shares: options, the table that it prints, the result that it keeps.

A benchmark module is a question, a function `measure(asked) -> Found`, and a `main()` that hands both to `run`. It is
measured on the load's core, with all that it starts; servers are put on theirs (`rounds.server`, `building.sink`).
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import machine
from benchmarks.pages import section
from benchmarks.result import Case, Result

from stepbench_tools.local.streams import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT_S = 120
ROUNDS, QUICK_ROUNDS = 7, 1
"""Six rounds are the least of which a median has a 95 % interval."""
ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".stepbench" / "bench"
RESULTS = ROOT / "benchmarks" / "results"
SKIPPED = 3
"""Exit status of a benchmark whose comparator is missing; what is missing, and the remedy, is on stderr."""


class MissingComparatorError(Exception):
    """A comparator is missing; the message says which, and the remedy."""


class Found(NamedTuple):
    """What a benchmark has measured. notes: what a reader has to know, one sentence or two each."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


def run(
    name: str,
    question: str,
    measure: Callable[[argparse.Namespace], Found],
    options: Callable[[argparse.ArgumentParser], None] = lambda _parser: None,
) -> None:
    """
    Measure, print, and keep the result if asked to.

    Args:
        name: the module's, and of its result.
        question: what it answers.
        measure: is given `rounds`, `quick` (as little as shows that it works) and `tools` (the directory of what is
            built), besides what `options` has added. May raise MissingComparatorError.
        options: adds the benchmark's own.
    """
    parser = argparse.ArgumentParser(description=question)
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}; with --quick {QUICK_ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works")
    parser.add_argument("--tools", type=Path, default=TOOLS, help="where comparators are, or are to be built")
    parser.add_argument("--into", type=Path, help="directory to keep the result in")
    options(parser)
    asked = parser.parse_args()
    asked.rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
    load_at_start = machine.load_average()
    try:
        with interruptible(), machine.pinned():  # whoever ends us ends our servers, too
            found = measure(asked)
    except MissingComparatorError as missing:
        print(missing, file=sys.stderr)
        sys.exit(SKIPPED)
    result = Result(
        benchmark=name,
        question=question,
        taken_at=dt.datetime.now(dt.UTC).replace(microsecond=0),
        commit=_commit(),
        machine=machine.describe(load_at_start),
        rounds=asked.rounds,
        cases=found.cases,
        notes=(*found.notes, *machine.notes(), *machine.steal_notes(), *machine.speed_notes()),
    )
    print(section(result))
    if asked.into is not None:
        asked.into.mkdir(parents=True, exist_ok=True)
        (asked.into / f"{name}.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")


def run_program(line: Sequence[object], limit_s: float = LIMIT_S, **options: Any) -> str:  # noqa: ANN401 -- as passed on
    """
    Return what a program prints; it runs on the cores that this process has.

    Args:
        line: the program and its arguments.
        limit_s: how long it may take.
        options: further ones for `subprocess.run`.

    Raises:
        SystemExit: it failed; with the end of what it said of that.
    """
    words = [str(word) for word in line]
    options = {"cwd": ROOT, "text": True, **options}
    done = subprocess.run(words, check=False, capture_output=True, timeout=limit_s, **options)
    if done.returncode:
        sys.exit(f"{words[0]} failed with status {done.returncode}: {done.stderr[-2_000:].strip()}")
    return str(done.stdout)


def _commit() -> str:
    """Return the commit's short name, and whether other files than results have changed since; or "unknown"."""

    def said(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()

    changed = said("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results", ":!docs")
    return (said("rev-parse", "--short", "HEAD") or "unknown") + ("-dirty" if changed else "")
