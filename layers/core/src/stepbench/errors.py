"""
The exceptions of Stepbench.

A failed *operation* on a store is data (`Outcome`), never one of these. An exception means that the trial,
or the request for one, is invalid. The class names are API: the state machines match them in `ErrorEquals`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class StepbenchError(Exception):
    """Root of everything that Stepbench raises on purpose; the message says what, to what, and what to do."""


class Problem(NamedTuple):
    """
    One thing that is wrong with an input, so described that its author can mend it.

    path: where it is (`trials[0].phases[1].load[0].rate_per_s`). value: what was found there.
    """

    path: str
    value: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return one line for a terminal, or for an execution's `Cause`."""
        return f"{self.path}: {self.message} (got {self.value}). {self.remedy}"


MOST_CHARACTERS = 12_000
"""The longest text of an error: an execution's cause holds 32,768, with quotes escaped and a stack trace beside it."""
LONGEST_ERROR = 120
"""The longest error of one operation: a store, or a row, may contain any text."""
MOST_FRAMES = 50
"""The most frames of an error's stack, which is part of that cause: an endless recursion has a thousand."""
MOST_PROBLEMS, LONGEST_PART = 200, 2_000
"""A refusal lists no more, and no longer ones: a plan of 120 kB can have 60,000 mistakes, or a name of 100 kB."""


HIDDEN = "(hidden)"
_LOGIN = re.compile(r'(?<=//)(?:[^\s/",@:]{0,200}:[^\s",]{0,2000}|[^\s/",@:?#]{1,200})(?=@)')
_QUERY = re.compile(r"((?:https?|s3)://[^\s\"'<>?#]{1,1000}\?)(?!\(hidden\))[^\s\"'<>]+", re.IGNORECASE)
"""The query of an address, which may be signed: whoever has the query has the file."""
_SECRET_VALUE = re.compile(
    r"((?:passw(?:or)?d|pwd|secret|token|credential|signature|(?:private|api|access)[_-]?key)[\w-]{0,20}"
    r"(?:=|%3D|[\"']\s{0,9}:\s{0,9}(?=[\"'])))(?!\(hidden\))(?:\"[^\"]*\"|'[^']*'|[^\s&;,\"'`)]+)",
    re.IGNORECASE,
)
"""Secrets in connection strings (`password=x`), queries (`?password=x`), signed addresses and JSON; each is bounded."""


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What controls a terminal, breaks a line, turns the direction of letters, or is half of a character."""


def harmless(text: str) -> str:
    """
    Return a text as it may be printed, logged and stored.

    Values that look like secrets are hidden; half characters, which JSON may have, are replaced; line breaks and what
    controls a terminal or turns the direction of letters is spelled out.
    """
    text = hide_query(_LOGIN.sub(HIDDEN, text.encode(errors="replace").decode()))
    return printable(_SECRET_VALUE.sub(rf"\1{HIDDEN}", text))


BLANKS = "\n\t"
"""What controls nothing but where a text of several lines goes on."""


def printable(text: str, kept: str = "") -> str:
    """
    Return a text in which what controls a terminal, breaks a line or turns the direction of letters is spelled out.

    Whatever writes for people sends through this what it has of a store, a plan, a row or a file.

    Args:
        text: any. JSON stays the same document: what it does not escape itself is spelled as JSON does.
        kept: the control characters that stay, such as `BLANKS`.
    """
    return text if text.isprintable() else _CONTROL.sub(lambda found: _spelled(found[0], kept), text)


def _spelled(character: str, kept: str) -> str:
    if character in kept:
        return character
    return character.encode("unicode_escape").decode() if character < "\x7f" else f"\\u{ord(character):04x}"


def find_control(text: str) -> str:
    """Return the first character of a text that `printable` spells out; empty if there is none."""
    found = _CONTROL.search(text)
    return found[0] if found else ""


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return a text of at most so many characters, which are fewer than twice as many in JSON; a cut is stated."""
    if len(text) <= most and len(json.dumps(text)) <= 2 * most:
        return text
    stated = f"... ({len(text):,} characters in all)"
    kept = text[: most - len(stated)]
    while len(json.dumps(kept)) > 2 * (most - len(stated)):
        kept = kept[: len(kept) // 2]
    return kept + stated


def has_query(text: str) -> bool:
    """Return whether a text holds an address with a query, hidden or not."""
    return HIDDEN in text or hide_query(text) != text


def hide_query(text: str) -> str:
    """Return a text without the queries of the addresses in it."""
    return _QUERY.sub(rf"\1{HIDDEN}", text)


def without_queries(document: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return a document in which no address has its query."""
    match document:
        case dict():
            return {name: without_queries(each) for name, each in document.items()}
        case list() | tuple():
            return [without_queries(each) for each in document]
        case str():
            return hide_query(document)
    return document


def bounded(error: Exception) -> Exception:
    """
    Return an error as a state machine can hold it: itself, or one of the same name with a shorter text and stack.

    Step Functions ends an execution whose state is above 256 KiB, with an error that no state can catch.
    """
    text, frames, traceback = shortened(str(error)), 0, error.__traceback__
    while traceback is not None:
        frames, traceback = frames + 1, traceback.tb_next
    if text == str(error) and frames <= MOST_FRAMES:
        return error
    shorter: type[StepbenchError] = type(type(error).__name__, (StepbenchError,), {})
    return shorter(text)


def listed(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return as many problems as a refusal lists, and one that counts those beyond."""
    beyond = len(problems) - MOST_PROBLEMS
    first = (Problem(*(harmless(shortened(part, LONGEST_PART)) for part in each)) for each in problems[:MOST_PROBLEMS])
    return (*first, *([NOT_LISTED._replace(value=f"{beyond:,}")] if beyond > 0 else ()))


NOT_LISTED = Problem("further problems", "1", "are not listed", "Mend those above, and ask again.")
"""It stands for a problem beyond those that are listed, which need not be put into words."""


class PlanError(StepbenchError):
    """
    The plan is refused before anything is created. Never retried. Its text leaves out what would be too long.

    What it repeats of an input is made harmless (`harmless`), whoever has put it in.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = listed(problems)
        text = "\n".join(str(problem) for problem in self.problems)
        if (kept := shortened(text)) != text:
            text = f"{kept.rpartition(chr(10))[0] or kept}\nand more: {len(problems):,} problems in all"
        super().__init__(text)


def raise_problems(problems: Iterable[Problem]) -> None:
    """Raise PlanError with problems, each once, however often a trial is repeated; nothing if there are none."""
    if found := tuple(dict.fromkeys(problems)):
        raise PlanError(found)


class RunFailedError(StepbenchError):
    """A run that has begun did not come to its end, or its results not here. Raised by who watches it."""


class RunEndedError(StepbenchError):
    """The run was stopped before its turn, or its schedule has started another: its execution ends. Never retried."""


class TaskFailedError(StepbenchError):
    """An attempt at a task of a DAG has failed; its row says why. Retried twice by the DAG machine."""


class TargetUnavailableError(StepbenchError):
    """The store under test, or its trigger, did not become ready in time. Retried by the state machine."""


class TargetUnreachableError(TargetUnavailableError):
    """Nobody has answered at the store's address in time, or who did will not have us. Only a tear-down is retried."""


class TargetBusyError(StepbenchError):
    """Another trial holds the target's lease. Retried for a while, then the trial fails."""


class TrialCancelledError(StepbenchError):
    """The trial's `cancelled` flag is set: stop, flush, return. Never retried."""


class WatchLostError(StepbenchError):
    """The watch on a pull trigger ended while load was offered. Raised by the trial machine itself."""


class LoadHostLostError(StepbenchError):
    """No load host takes writers, or too few at once, or one is silent. Raised by the trial machine, too."""


class TrialsFailedError(StepbenchError):
    """The report is written, and not all of its trials succeeded. Raised by the benchmark machine itself."""


class RateNotFoundError(StepbenchError):
    """No rate made the store as busy as `find_rate` wants it: phases at that rate cannot be offered. Not retried."""


class RecordsUnavailableError(StepbenchError):
    """Records could be neither written nor read; raised only when both places, table and bucket, failed."""


class RecordsRefusedError(RecordsUnavailableError):
    """Table or bucket refuse: the right to it is missing, or it is gone. Not retried: that does not pass by itself."""


class RecordsLostError(RecordsUnavailableError):
    """Records that a writer held could be stored nowhere, and are gone. Not retried, since a retry has none of them."""


class CorruptRecordsError(StepbenchError):
    """A stored record file or item does not decode; names the key."""


class AccountingError(StepbenchError):
    """The accounting does not balance: a bug, or records that contradict each other. Never papered over."""


class InsufficientSampleError(StepbenchError):
    """The sample is too small for the statistic that was asked for."""


class MissingLibraryError(StepbenchError):
    """Something was asked for that needs a library that is not installed."""


class LocalEnvironmentError(StepbenchError):
    """The embedded run cannot start or stop something on this machine."""


class ServerEndedError(LocalEnvironmentError):
    """A server of the local environment ended while a run needed it; its last log lines are in the report."""
