"""What a command writes: data for programs and files to stdout, words for people to stderr."""

from __future__ import annotations

import sys


def write(text: str) -> None:
    """Write a line of data."""
    sys.stdout.write(f"{text}\n")


def write_message(text: str) -> None:
    """Write a line for people."""
    sys.stderr.write(f"{text}\n")


def write_errors(*texts: str) -> None:
    """Write errors for people, each a line that says who speaks."""
    for text in texts:
        write_message(f"stepbench: {text}")
