"""A file of environment variables: lines `NAME=value`, as most tools write `.env`. Messages show no value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepbench.contracts.function import MOST_VARIABLES_BYTES, variable_problems
from stepbench.errors import HIDDEN, PlanError, Problem

if TYPE_CHECKING:
    from pathlib import Path

FIELD = "variables_file"
_LINE = re.compile(r"""(?:export\s+)?([^=\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|(.*?))\s*(?:\s#.*)?""")
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def read_variables(file: Path) -> dict[str, str]:
    """
    Return the variables of a file, later lines above earlier ones; a value in quotes stands as it is between them.

    Raises:
        PlanError: it cannot be read, a line is none, or Lambda would refuse what it holds.
    """
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text in UTF-8"
        remedy = "Give a file with lines NAME=value, relative to the plan."
        raise PlanError([Problem(FIELD, f'"{file}"', f"cannot be read: {reason}", remedy)]) from error
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parsed = _LINE.fullmatch(line.strip())
        if parsed is None:
            problems.append(_problem(file, number, "is no variable", "Write NAME=value."))
            continue
        name, double, single, plain = parsed.groups()
        value = re.sub(r'\\[n"\\]', lambda escape: _ESCAPES[escape[0]], double) if double is not None else single
        found[name] = plain if value is None else value
        problems += [_problem(file, number, *said) for _, *said in variable_problems({name: ""})]
    if sum(len(name) + len(value.encode()) for name, value in found.items()) > MOST_VARIABLES_BYTES:
        message = f"holds more than Lambda's {MOST_VARIABLES_BYTES:,} bytes of variables"
        problems.append(Problem(FIELD, f'"{file}"', message, "Shorten them."))
    if problems:
        raise PlanError(problems)
    return found


def _problem(file: Path, number: int, message: str, remedy: str) -> Problem:
    return Problem(f"{FIELD}, line {number} of {file.name}", HIDDEN, message, remedy)
