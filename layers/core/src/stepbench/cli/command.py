"""What a command is: a name, a function, and its arguments; and what several commands have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

OK, FAILED, BAD_INPUT, THRESHOLD_MISSED = 0, 1, 2, 3
EXIT_CODES = (
    "0 ok; 1 a run failed, was stopped, or left a trial out; 2 bad input; 3 a run missed a threshold of its plan"
)


class Argument(NamedTuple):
    """An argument of a command, as `argparse.ArgumentParser.add_argument` takes it."""

    names: tuple[str, ...]
    options: dict[str, Any]


class OneOf(NamedTuple):
    """Arguments that exclude each other."""

    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Command:
    """
    A command of `stepbench`. A new one is a function and an entry in its module's `COMMANDS`.

    name: what a user types. run: takes the parsed arguments, returns the exit code, and imports what it needs itself,
    so that no command waits for another's libraries. text: one line of help. epilog: stands below its own help.
    """

    name: str
    run: Callable[[argparse.Namespace], int]
    text: str
    arguments: tuple[Argument | OneOf, ...] = ()
    epilog: str = ""


def argument(*names: str, **options: Any) -> Argument:  # noqa: ANN401 -- argparse's
    """Return an argument of a command; the options are argparse's."""
    return Argument(names, options)


def folder(text: str) -> Path:
    """Return the folder that an argument names; an empty text, such as a script's unset variable, names none."""
    if not text:
        message = "names no folder"
        raise argparse.ArgumentTypeError(message)
    return Path(text)


def at_least_one(text: str) -> int:
    """Return a count."""
    number = int(text)
    if number < 1:
        message = f"{number} is below 1"
        raise argparse.ArgumentTypeError(message)
    return number


def out(text: str) -> Argument:
    """Return the option that names the folder of runs; the text says what the command does there."""
    return argument("--out", type=folder, default=Path("out"), metavar="DIR", help=f"{text} (default: out)")
