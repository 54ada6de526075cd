"""
A trial's table with the columns of the user's own rows: its definition, its statements, and the check of its types.

Values travel as text, and the server makes each column's type of it, as it does for most client libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.identity import EVENT_ID_CHARS
from stepbench.drivers.sql import Statement, find_row
from stepbench.errors import HIDDEN, PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.sql.access import BoundedConnection
    from stepbench.model.request import Request
    from stepbench.workload.values import PreparedValues

_INSERT = """
INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT (key) DO UPDATE SET ({names}) = ROW({excluded})
"""
_PRELOAD = (
    "INSERT INTO {table} ({names}) SELECT {casts} FROM unnest({arrays}) AS given({places}) ON CONFLICT DO NOTHING"
)
_CHECK = "SELECT count(given::{kind}) FROM unnest(%s::text[]) AS given"


class RowTable:
    """
    A table of keys, rows, and where it is asked for of identities.

    columns: PostgreSQL's types by name, of a closed list (`contracts.values.COLUMN_TYPES`). identity: the column of
    the event's identity; "" where the key alone has it.
    """

    def __init__(self, table: sql.Composable, columns: dict[str, str], identity: str) -> None:
        self._table = table
        self._types = {"key": "text", **({identity: "text"} if identity else {}), **columns}
        self._named = bool(identity)
        self._names = sql.SQL(", ").join(map(sql.Identifier, self._types))

    @property
    def definition(self) -> sql.Composable:
        """Return the columns beside the key, as CREATE TABLE has them."""
        others = list(self._types.items())[1:]
        parts = [sql.SQL(", {} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in others]
        return sql.Composed(parts)

    @property
    def insert(self) -> Statement:
        """Return the statement that writes a row, over the former one where the key is there already."""
        values = [sql.SQL(f"${place}::text::{kind}") for place, kind in enumerate(self._types.values(), 1)]
        text = sql.SQL(_INSERT).format(
            table=self._table,
            names=self._names,
            values=sql.SQL(", ").join(values),
            excluded=sql.SQL(", ").join(sql.SQL("excluded.{}").format(sql.Identifier(name)) for name in self._types),
        )
        arguments = _named_row if self._named else _row
        return Statement(b"stepbench_insert_own_row", text.as_bytes(None), arguments, find_row)

    async def preload(self, connection: BoundedConnection, writes: Sequence[Request]) -> None:
        """
        Write rows whose keys are not there.

        Raises:
            PlanError: the server takes a row for none of its types. PostgreSQL's message has the row, so is not shown.
        """
        arguments = _named_row if self._named else _row
        rows = [[cell if cell is None else cell.decode() for cell in arguments(write)] for write in writes]
        places = [sql.Identifier(f"c{place}") for place in range(len(self._types))]
        text = sql.SQL(_PRELOAD).format(
            table=self._table,
            names=self._names,
            casts=sql.SQL(", ").join(
                sql.SQL("{}::{}").format(place, sql.SQL(kind))
                for place, kind in zip(places, self._types.values(), strict=True)
            ),
            arrays=sql.SQL(", ").join([sql.SQL("%s::text[]")] * len(places)),
            places=sql.SQL(", ").join(places),
        )
        try:
            await connection.execute(text, [list(column) for column in zip(*rows, strict=True)])
        except psycopg.DataError as error:
            message = f"have what the server does not take (SQLSTATE {error.sqlstate})"
            remedy = "Give types of columns in record.values.types, such as text, or mend the rows."
            raise PlanError([Problem("record.values", HIDDEN, message, remedy)]) from None


def _row(request: Request) -> list[bytes | None]:
    return [request.key.encode(), *request.row]


def _named_row(request: Request) -> list[bytes | None]:
    return [request.key.encode(), request.value[:EVENT_ID_CHARS], *request.row]


async def check_types(spec: TrialSpec, values: PreparedValues, connection: BoundedConnection) -> None:
    """
    Have the server read what the columns' types were given for; what JSON itself has fits always.

    Raises:
        PlanError: a column has a text that is none of its type. The text, which PostgreSQL's message has, is not shown.
    """
    own = spec.offered.record.values
    given = own.types if own else {}
    problems = []
    for place, (name, kind) in enumerate(values.facts.columns.items()):
        if name not in given:
            continue
        texts = [cell.decode() for row in values.rows if (cell := row.columns[place]) is not None]
        try:
            await connection.execute(sql.SQL(_CHECK).format(kind=sql.SQL(kind)), [texts])
        except psycopg.DataError as error:
            path = f"trial {spec.name}: record.values.types.{name}"
            message = f"is {kind}, and a row has a text that is none (SQLSTATE {error.sqlstate})"
            problems.append(Problem(path, HIDDEN, message, "Give another type, such as text, or mend the rows."))
    if problems:
        raise PlanError(problems)
