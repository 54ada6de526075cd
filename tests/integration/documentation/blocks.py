"""The blocks of README, CONTRIBUTING and docs, each with its kind: what is to be done with it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[3]
FOLDERS = ("docs", "layers/core/src/stepbench/drivers/*")
PAGES = (
    *("README.md", "CONTRIBUTING.md"),
    *sorted(str(page.relative_to(ROOT)) for folder in FOLDERS for page in ROOT.glob(f"{folder}/*.md")),
)
KINDS = {
    "sh": "run by bash with recorders in place of the tools, and each call parsed by the tool's own parser",
    "yaml": "parsed; its commands are run as those of `sh`",
    "json": "parsed, and validated as what it is: plan, trial, DAG, request, pattern of events",
    "python": "compiled, its imports resolved, and run as far as it needs no run",
    "js": "parsed by Node.js",
    "sql": "the statements are those that the product executes",
    "refusals": "the plan that they are about is refused with these words",
    "left out": "explained in NO_COMMANDS",
}
"""What is tried of a block, by its kind."""
OTHER_KINDS = {"CREATE ROLE stepbench": "sql", "trials[0].phases[0].load[0]": "refusals"}
"""Kinds of blocks without a language that are no commands, by how they begin."""
NO_COMMANDS = {
    "tools/cli     ": "the map of rooms, which tests/layout/test_imports.py compares with the order of imports",
    "offered  = sent+unsent": "a definition; records that obey it: tests/integration/stages/test_after_load.py",
    '{"stepbench.t4"': "the measuring layer's lines, which tests/unit/records/formats/test_function_lines.py reads",
    "fields @timestamp": "a query of CloudWatch Logs Insights, which nothing here parses",
    "flowchart LR": "a drawing; Mermaid's parser is not among the tools",
    "flowchart TB": "drawings that tests/unit/tools/documents/test_pages.py compares with what is generated",
}
"""Blocks that nobody types, by how they begin (blanks do not count), and what holds them to the truth."""


class Block(NamedTuple):
    """A block of a page: the line that it begins at, the language that its fence names, and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Return where it stands."""
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """Return one of KINDS; what names no language and is none of the exceptions is taken for commands."""
        begins = self.text.replace(" ", "")
        if any(begins.startswith(each.replace(" ", "")) for each in NO_COMMANDS):
            return "left out"
        if self.language:
            return self.language
        found = (kind for start, kind in OTHER_KINDS.items() if self.text.startswith(start))
        return next(found, "sh")


@cache
def blocks() -> tuple[Block, ...]:
    """Return every block of every page, fenced or indented, in lists as well."""
    parser = MarkdownIt("commonmark").enable("table")
    return tuple(
        Block(page, token.map[0] + 1, token.info.strip(), token.content)
        for page in PAGES
        for token in parser.parse((ROOT / page).read_text("utf-8"))
        if token.type in {"fence", "code_block"} and token.map
    )


def of_kind(kind: str) -> list[Block]:
    """Return the blocks of a kind."""
    return [each for each in blocks() if each.kind == kind]
