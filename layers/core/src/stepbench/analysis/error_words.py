"""
What errors of stores mean in a word or two, and what to do: one remedy for all sends most readers the wrong way.

`error_words.json` has them by remedy: of Redis and Valkey the first word of a refusal; of PostgreSQL and DSQL the
SQLSTATE (PostgreSQL's appendix A); of etcd gRPC's status codes; of Cassandra names of its native protocol
(`wire.cql.answers`); AWS's codes; our own (`model.errors`); and those of transfers
(`experiments.transfer.program.progress`), of files and the system's.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.model import errors
from stepbench.model.errors import how_to_log_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class ErrorWords(NamedTuple):
    """What an error means, and what to do about it."""

    meaning: str
    remedy: str


SOMETHING = "Look at the store's log of that time."
UNKNOWN = "Look at the store's log of that time; the errors are its own words, of which no more is known here."
_OF_LOGINS = frozenset({"login", "rights_of_login"})
"""Remedies that end with how a login is given to that store."""
_SAID = {"INVALID_ARGUMENT": "user name is empty"}
"""What a store says with an error whose name does not tell that it is about a login."""
_NAMELESS = frozenset({errors.OTHER_ERRORS, "failed", "unknown"})
"""Counts of what has no name, or whose names are too many."""
_FIRST = (errors.WRONG_VALUE,)
"""Of these the remedy comes before all others, however few there are."""


@cache
def remedies() -> Mapping[str, str]:
    """Return what to do, by the names that the table has for it."""
    return {name: group["remedy"] for name, group in _table().items()}


@cache
def known_errors() -> Mapping[str, ErrorWords]:
    """Return what is known of errors, by their names."""
    found = {}
    for name, group in _table().items():
        for error, meaning in group["errors"].items():
            how = how_to_log_in(_SAID.get(error, error)) if name in _OF_LOGINS else ""
            found[error] = ErrorWords(meaning, f"{group['remedy']} {how}".strip())
    return found


@cache
def _table() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(files("stepbench.analysis").joinpath("error_words.json").read_bytes())
    return found


def explain(error: str) -> ErrorWords | None:
    """
    Return what is known of an error; None of an unknown one.

    It goes by its name, by what stands before its colon, or, of `HTTP 503 SlowDown`, by the service's own code.
    """
    known = known_errors()
    return known.get(error) or known.get(error.partition(":")[0]) or known.get(error.rpartition(" ")[2])


def name_error(error: str) -> str:
    """Return an error with its meaning: `25006 (read-only transaction)`."""
    found = explain(error)
    return f"{error} ({found.meaning})" if found and found.meaning else error


def find_remedies(names: Iterable[str]) -> str:
    """Return what to do about errors, the most frequent first, each remedy once."""
    ordered = sorted((name for name in names if name not in _NAMELESS), key=lambda name: name not in _FIRST)
    found = [words.remedy if (words := explain(name)) else UNKNOWN for name in ordered]
    return " ".join(dict.fromkeys(found)) or SOMETHING
