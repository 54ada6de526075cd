"""What a command writes: data for programs and files to stdout, words for people to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from stepbench.errors import BLANKS, printable


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
