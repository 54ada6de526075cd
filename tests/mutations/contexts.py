"""Which tests execute which line, as coverage.py's contexts have recorded it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from coverage.numbits import numbits_to_nums

if TYPE_CHECKING:
    from pathlib import Path

ALL_LINES = "SELECT context, numbits FROM line_bits JOIN context ON context.id = context_id"
RECORDED = ("tests/unit", "tests/integration", "tests/statemachines")
OPTIONS = (
    "--cov=layers/core/src/stepbench",
    "--cov=tools/src/stepbench_tools",
    "--cov=functions",
    "--cov-context=test",
    "--cov-report=",
)


class Contexts:
    """A file that `record` has written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tests_of(self, path: Path, lines: tuple[int, int]) -> list[str]:
        """Return the tests that execute one of the lines, those first that execute least."""
        wanted = set(range(lines[0], lines[1] + 1))
        query = f"{ALL_LINES} JOIN file ON file.id = file_id WHERE path = ?"
        with closing(sqlite3.connect(self._path)) as database:
            rows = database.execute(query, [str(path)]).fetchall()
        tests = {name_of(context) for context, bits in rows if not wanted.isdisjoint(numbits_to_nums(bits))}
        return sorted(tests - {""}, key=lambda test: (self._sizes[test], test))

    @cached_property
    def _sizes(self) -> Counter[str]:
        sizes = Counter[str]()
        with closing(sqlite3.connect(self._path)) as database:
            for context, bits in database.execute(ALL_LINES):
                sizes[name_of(context)] += int.from_bytes(bits).bit_count()
        return sizes


def name_of(context: str) -> str:
    """Return the test of a context, which is `TEST|setup`, `TEST|run` or `TEST|teardown`, or empty at import."""
    return context.rpartition("|")[0]
