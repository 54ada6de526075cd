"""
The exceptions of Stepbench.

A failed *operation* on a store is data (`Outcome`), never one of these. An exception means that the trial,
or the request for one, is invalid. The class names are API: the state machines match them in `ErrorEquals`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


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
"""Of a refusal as text: an execution's cause holds 32,768, with every quote escaped, and a stack trace beside it."""


HIDDEN = "(hidden)"
_LOGIN = re.compile(r'(?<=//)[^\s/",@:]{0,200}:[^\s",]{0,200}(?=@)')
_SECRET_VALUE = re.compile(
    r"((?:passw(?:or)?d|pwd|secret|token|credential|signature|(?:private|api|access)[_-]?key)[\w-]{0,20}"
    r"(?:=|%3D|[\"']\s{0,9}:\s{0,9}(?=[\"'])))(?!\(hidden\))(?:\"[^\"]*\"|'[^']*'|[^\s&;,\"'`)]+)",
    re.IGNORECASE,
)
"""In connection strings (`password=x`), queries (`?password=x`), signed addresses and JSON; what repeats is bounded."""


_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def harmless(text: str) -> str:
    """
    Return a text as it may be printed, logged and stored.

    Values that look like secrets are hidden; half characters, which JSON may have, are replaced; line breaks and what
    controls a terminal or turns the direction of letters is spelled out.
    """
    text = _SECRET_VALUE.sub(rf"\1{HIDDEN}", _LOGIN.sub(HIDDEN, text.encode(errors="replace").decode()))
    if text.isprintable():
        return text
    return "".join(each.encode("unicode_escape").decode() if is_control(each) else each for each in text)


def is_control(character: str) -> bool:
    """Tell whether a character controls a terminal, breaks a line, turns letters' direction, or is half of one."""
    return unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or character in _DIRECTIONS


class PlanError(StepbenchError):
    """
    The plan is refused before anything is created. Never retried. Its text leaves out what would be too long.

    What it repeats of an input is made harmless (`harmless`), whoever has put it in.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(Problem(*map(harmless, problem)) for problem in problems)
        text = "\n".join(str(problem) for problem in self.problems)
        if len(text) > MOST_CHARACTERS:
            whole_lines = text[:MOST_CHARACTERS].rpartition("\n")[0] or text[:MOST_CHARACTERS]
            text = f"{whole_lines}\nand more: {len(self.problems)} problems in all"
        super().__init__(text)


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
