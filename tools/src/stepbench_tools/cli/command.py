"""
What a command is: a name, a function and its arguments; what several commands have in common; and what they write.

Data for programs and files go to stdout, words for people to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepbench.errors import BLANKS, printable

OK, FAILED, BAD_INPUT, THRESHOLD_MISSED, NOT_DONE, CRASHED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
EXIT_CODES = (
    "0 ok; 1 a run failed, was stopped, or left a trial out, or a comparison found a regression; 2 bad input; "
    "3 a run missed a threshold of its plan, or with --strict did not decide one; 4 it could not be done: a server, "
    "AWS, a file or a library that it needs is not there or refuses; 5 a mistake of Stepbench's own; 130 interrupted"
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
    commands: its own, each in place of the command itself.
    """

    name: str
    run: Callable[[argparse.Namespace], int]
    text: str
    arguments: tuple[Argument | OneOf, ...] = ()
    epilog: str = ""
    commands: tuple[Command, ...] = ()


def argument(*names: str, **options: Any) -> Argument:  # noqa: ANN401 -- argparse's
    """Return an argument of a command; the options are argparse's."""
    return Argument(names, options)


def folder(text: str) -> Path:
    """Return the folder that an argument names; an empty text, such as a script's unset variable, names none."""
    if not text:
        message = "names no folder"
        raise argparse.ArgumentTypeError(message)
    return Path(text)


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a count."""

    def count(text: str) -> int:
        if (number := int(text)) < least:
            message = f"{number} is below {least}"
            raise argparse.ArgumentTypeError(message)
        return number

    return count


def between(
    least: float, most: float, kind: Callable[[str], float] = float, *, above: bool = False
) -> Callable[[str], float]:
    """Return what reads a number with bounds, which belong to it; with `above` the lower one does not."""

    def number(text: str) -> float:
        if not least <= (value := kind(text)) <= most or (above and value == least):
            lower = f"above {least:,} and up to" if above else f"between {least:,} and"
            message = f"{text} is not {lower} {most:,}"
            raise argparse.ArgumentTypeError(message)
        return value

    return number


TOLERANCE = between(0, 1_000, above=True)
"""Reads a share in per cent; ten times as slow is no tolerance."""


def out(text: str) -> Argument:
    """Return the option that names the folder of runs; the text says what the command does there."""
    return argument("--out", type=folder, default=Path("out"), metavar="DIR", help=f"{text} (default: out)")


def _change(text: str) -> tuple[str, Any]:
    from stepbench.planning.changes import parse_change

    try:
        return parse_change(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        message = f"{text!r} is no number of seconds above 0; give one, such as 600 for ten minutes"
        raise argparse.ArgumentTypeError(message)
    return seconds


PLAN = "PLAN"
"""What an argument that names plans is called in help; completion offers presets for it."""
PLANS = argument(
    "plans", metavar=PLAN, nargs="+", help="a file (JSON or YAML), a preset (see `stepbench plans`), or - for stdin"
)
CHANGES = (
    argument(
        "--set",
        type=_change,
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change a field, as in trials[0].phases[1].load[0].rate_per_s=500; the value is JSON, or else text; "
        "trials[*] is all trials; may be given again",
    ),
    argument("--repeats", type=at_least(1), metavar="N", help="run each trial N times"),
    argument(
        "--duration",
        type=_seconds,
        metavar="S",
        help="let each measured phase last S seconds: its load steps and windows are stretched in proportion, counts "
        "become durations, and warm-up stays as it is",
    ),
)
"""Options of commands that take a plan with changes; `requested_changes` reads them."""
CASSANDRA = argument(
    "--cassandra", action="store_true", help="also start Cassandra; a run of a plan that names it starts it by itself"
)
ETCD_MEMBERS = argument(
    "--etcd-members",
    type=int,
    choices=(1, 3, 5),
    help="members of the local etcd cluster (default: as it runs already, or 1); another number restarts all",
)
OPEN = argument("--open", action="store_true", help="open the report in your browser")


def open_page(page: Path, otherwise: str = "") -> None:
    """Open a page in the user's browser, or say where it is, or what else to do."""
    import webbrowser

    address = page.resolve().as_uri()
    try:
        opened = webbrowser.open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        write_errors(f"no browser could be started; {otherwise or f'the report is {address}'}")


def write(text: str) -> None:
    """Write data, of one or several lines."""
    sys.stdout.write(f"{printable(text, BLANKS)}\n")


def write_message(text: str) -> None:
    """Write a message for people, of one or several lines."""
    sys.stderr.write(f"{printable(text, BLANKS)}\n")


def messages(options: argparse.Namespace) -> Callable[[str], None]:
    """Return what writes lines for people: nothing with --quiet."""
    return _drop if options.quiet else write_message


def _drop(_text: str) -> None:
    """Write nothing."""


def write_errors(*texts: str) -> None:
    """Write errors for people, each a line that says who speaks."""
    for text in texts:
        write_message(f"stepbench: {text}")
