"""A page's commands, run by bash in an empty folder, with recorders in place of the tools that they call."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from ruamel.yaml import YAML
from tests.integration.documentation.blocks import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.documentation.blocks import Block

RECORDED = ("aws", "curl", "git", "go", "make", "pip", "python", "sam", "sleep", "stepbench", "versitygw")
PROGRAMS_OF_THE_CLONE = (".ci/run", ".venv/bin/python")
REAL = ("cat", "cut", "date", "grep", "jq", "mkdir", "ps", "sha256sum", "wc")
"""Tools that only read what they are given; there is no other program on the PATH."""
RECORDER = """#!/bin/sh
printf '%s\\0' "$BLOCK" "$#" "$0" "$@" >> "$CALLS"
case "${0##*/} $1" in
  aws*) echo arn:aws:states:us-east-1:000000000000:stateMachine:stepbench-Benchmark ;;
  "curl --silent") echo '{"key": "values/a.jsonl", "url": "https://bucket/values/a.jsonl", "headers": {"a": "b"}}' ;;
  "python -c") echo python3.13 ;;
esac
"""
GIVEN = {
    "docs/api.md": ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "docs/regressions.md": ("HISTORY",),
    "docs/runbook.md": ("RUN", "TARGET"),
}
"""Variables that a page has its reader set, beside those that its own commands set."""


class Call(NamedTuple):
    """A program that a block calls: its path, and the words that it is given."""

    block: str
    program: str
    words: tuple[str, ...]


def scripts() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each page that has commands with these, by the names of their blocks; one of YAML is a script by itself."""
    pages: dict[str, list[tuple[str, str]]] = {}
    for block in of_kind("sh"):
        pages.setdefault(block.page, []).append((block.name, block.text))
    yield from pages.items()
    for block in of_kind("yaml"):
        yield block.page, [(block.name, "\n".join(commands_of(block)))]


def commands_of(block: Block) -> list[str]:
    """Return the commands of a workflow (`run`) or of a build (`commands`)."""

    def found(node: object) -> Iterator[str]:
        if isinstance(node, list):
            for each in node:
                yield from found(each)
        elif isinstance(node, dict):
            for key, value in node.items():
                if key == "run":
                    yield str(value)
                elif key == "commands":
                    yield from value
                else:
                    yield from found(value)

    return list(found(YAML(typ="safe").load(block.text)))


def record(folder: Path, page: str, parts: list[tuple[str, str]]) -> list[Call]:
    """
    Run a page's commands one after the other, as a reader does, and return what they called.

    Raises:
        AssertionError: bash cannot parse them, one of them fails, or a variable is used that nobody has set.
    """
    tools = folder / "tools"
    for name in (*RECORDED, *PROGRAMS_OF_THE_CLONE):
        path = folder / name if "/" in name else tools / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(RECORDER)
        path.chmod(0o755)
    for name in REAL:
        (tools / name).symlink_to(str(shutil.which(name)))
    calls = folder / "calls"
    calls.touch()
    script = "\n".join(["set -eu", *(f"export BLOCK={name}\n{text}" for name, text in parts), "wait"])
    variables = dict.fromkeys(GIVEN.get(page, ()), "given")
    answer = subprocess.run(
        [str(shutil.which("bash")), "-c", script],
        cwd=folder,
        env={"PATH": str(tools), "CALLS": str(calls), "TZ": "UTC", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return list(_calls(calls.read_text().split("\0")))


def _calls(fields: list[str]) -> Iterator[Call]:
    """Yield the calls in a recorder's file: block, number of words, program, words."""
    at = 0
    while at + 2 < len(fields):
        end = at + 3 + int(fields[at + 1])
        program = fields[at + 2]
        name = program.rpartition("/")[2] if program.startswith("/") else program.removeprefix("./")
        yield Call(fields[at], name, tuple(fields[at + 3 : end]))
        at = end
