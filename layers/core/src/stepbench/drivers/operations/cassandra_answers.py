"""What Cassandra's answers mean for an operation. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.wire.cql import MalformedAnswerError
from stepbench.wire.cql_answers import PERHAPS_DONE, refusal, rows

if TYPE_CHECKING:
    from stepbench.drivers.protocol import Operation
    from stepbench.wire.cql_connection import CqlAnswered

NOT_FOUND, GARBAGE, UNPREPARED = "not_found", "garbage-answer", "Unprepared"


def judge(answered: CqlAnswered, operation: Operation, *, reading: bool) -> tuple[Outcome, str]:
    """
    What an answer to a step of the operation means, and the error's code.

    A request of which the kernel got nothing certainly had no effect; one without an answer may have had. So may a
    write of which the server says that it does not know (`PERHAPS_DONE`); a read of that kind has changed nothing.
    """
    if answered.error:
        return Outcome.UNKNOWN if answered.sent else Outcome.FAILED, answered.error
    try:
        error = refusal(answered.frame)
        if error is not None:
            unsure = error.name in PERHAPS_DONE and not reading
            return Outcome.UNKNOWN if unsure else Outcome.FAILED, error.name
        if reading and not _finds(answered, operation):
            return Outcome.FAILED, NOT_FOUND
    except MalformedAnswerError:
        return Outcome.UNKNOWN, GARBAGE
    return Outcome.OK, ""


def _finds(answered: CqlAnswered, operation: Operation) -> bool:
    """
    Whether the record is there; a scan has to begin with it.

    Of a row without values nothing but the key was ever written; Cassandra shows it all the same.
    """
    found = rows(answered.frame)
    if operation.kind == Kind.SCAN:
        return bool(found) and found[0][0] == operation.key.encode()
    return bool(found) and found[0][0] is not None
