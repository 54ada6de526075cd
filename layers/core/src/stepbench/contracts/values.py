"""Values of the user's own that a trigger's events write: rows, and what is known of them once they were read."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, Contract, RuledContract, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = "values/"
"""What the keys of uploaded rows in the results bucket begin with."""
FORMATS = ("json", "jsonl", "csv", "zip")
"""By a key's extension: a JSON array, JSON Lines, CSV with a header, or a ZIP archive whose files are the rows."""
_CONTENT_KEY = re.compile(rf"{VALUES}[0-9a-f]{{64}}\.({'|'.join(FORMATS)})")
MOST_ROWS = 100_000
MOST_INLINE_ROWS, MOST_INLINE_BYTES = 1_000, 32_768
"""Of rows in the plan itself, which is an execution's input and stays in its history."""
MOST_FILE_BYTES = 32 * 1024 * 1024
"""Of bodies in an archive, unpacked: each writer holds all of them in memory."""
MOST_TEXT_BYTES = 8 * 1024 * 1024
"""Of rows as text, which take ten times as much once they were read, in functions that have 512 MB."""
COLUMN_TYPES = (
    "bigint",
    "boolean",
    "bytea",
    "date",
    "double precision",
    "integer",
    "json",
    "jsonb",
    "numeric",
    "real",
    "smallint",
    "text",
    "timestamp",
    "timestamptz",
    "uuid",
)

Row = dict[str, Any]
"""One row: what JSON has, by the name of its attribute, column or part."""


def form_of(key: str) -> str:
    """Return the format of a file of rows, by its key's extension."""
    return key.rpartition(".")[2]


def most_bytes(form: str) -> int:
    """Return how large a file of a format may be."""
    return MOST_FILE_BYTES if form == "zip" else MOST_TEXT_BYTES


def content_key(body: bytes, form: str) -> str:
    """Return the key in the results bucket of rows with this content."""
    return f"{VALUES}{hashlib.sha256(body).hexdigest()}.{form}"


def names_content(key: str) -> bool:
    """Return whether a key is one of `content_key`, whose file never changes."""
    return bool(_CONTENT_KEY.fullmatch(key))


class RowFacts(Contract):
    """
    What is known of rows once they were read, and all that a trial's own documents say of them.

    Sizes have names and the identity beside the key in them, and the mean is by weight. DynamoDB bills by `mean_kib`.
    """

    rows: int = Field(ge=1, description="How many there are.")
    mean_bytes: float = Field(ge=0, description="Of a row as the store keeps it, on average over what is written.")
    largest_bytes: int = Field(ge=0, description="Of the largest.")
    mean_kib: float = Field(ge=0, description="Kilobytes begun by a row with its key, on average.")
    columns: dict[str, str] = Field(default={}, description="Types of PostgreSQL's columns, by name.")


class RecordValues(RuledContract):
    """
    Rows that events write, in place of filler.

    A row is what the store makes of it: attributes of an item (DynamoDB), columns (PostgreSQL), or `body` or `base64`,
    and for S3 a `suffix` of the key. Which event writes which row follows from the seed and the event's number.
    """

    APART: ClassVar[bool] = True

    rows: tuple[Row, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST_INLINE_ROWS,
        description=f"In the plan itself, {MOST_INLINE_BYTES:,} bytes as JSON at most. They stay in the execution's "
        "history and in the run's plan.json (not of the command line, which uploads them); rows that nobody is to see "
        "there are given as a file or by a key.",
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="A file, or a folder of bodies for S3 and etcd, on the machine of the command line, which uploads "
        "it and puts the key in place. No other way in takes one.",
    )
    key: str | None = Field(
        default=None,
        pattern=rf"^{VALUES}[A-Za-z0-9_-][A-Za-z0-9._-]{{0,200}}\.({'|'.join(FORMATS)})$",
        examples=["values/orders.jsonl"],
        description="In the stack's results bucket, such as `values/orders.jsonl`: a JSON array, JSON Lines, CSV with "
        "a header, or a ZIP archive whose files are bodies.",
    )
    choose: Literal["in_order", "random", "weighted"] = Field(
        default="in_order",
        description="Which row an event writes: one after the other over all writers, from the first again in each "
        "slice; at random, each alike; or at random by `weight`.",
    )
    weight: str | None = Field(
        default=None, min_length=1, max_length=255, description="The column of the rows' weights, which is not written."
    )
    types: dict[str, str] = Field(
        default={},
        max_length=200,
        description="PostgreSQL's types of columns, by name; without it, as JSON has them: bigint, numeric, boolean, "
        "text, jsonb.",
    )
    facts: RowFacts | None = Field(
        default=None, description="What is known of the rows. It is filled in when a plan is admitted."
    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        given = [name for name in ("rows", "file", "key") if getattr(self, name) is not None]
        if len(given) != 1:
            has = f"has {' and '.join(given)}" if given else "says nowhere where the rows are"
            yield BrokenRule("", has, 'Give one: "rows", "key", or for the command line "file".')
        if self.choose == "weighted" and self.weight is None:
            yield BrokenRule("weight", "is missing, and weighted rows need it", "Name the column with the weights.")
        if self.choose != "weighted" and self.weight is not None:
            yield BrokenRule("weight", "has no effect", 'Remove it, or set choose to "weighted".')
        for name, kind in self.types.items():
            if kind not in COLUMN_TYPES:
                hint = f'Did you mean "{close}"? ' if (close := nearest(kind, COLUMN_TYPES)) else ""
                remedy = f"{hint}Use one of {', '.join(COLUMN_TYPES)}."
                yield BrokenRule(f"types.{name}", "is no type that columns of values have", remedy)
