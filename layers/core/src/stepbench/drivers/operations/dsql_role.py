"""
The role and the schema that the functions work with in a cluster, and which roles of IAM may log in as that role.

It is done as `admin`, once, and again with other roles of IAM: what is there already stays. Each statement is a
transaction of its own, because a transaction holds one DDL statement at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.drivers.operations.dsql_access import DATABASE_ROLE, SCHEMA
from stepbench.drivers.operations.sql_execution import CONFLICTS
from stepbench.drivers.operations.sql_operator import pause_s

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from stepbench.clock import Clock

_ROLE, _SCHEMA = sql.Identifier(DATABASE_ROLE), sql.Identifier(SCHEMA)
SETUP = (
    sql.SQL("CREATE ROLE {role} WITH LOGIN").format(role=_ROLE),
    sql.SQL("CREATE SCHEMA IF NOT EXISTS {schema}").format(schema=_SCHEMA),
    sql.SQL("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}").format(schema=_SCHEMA, role=_ROLE),
)
_BOUND = "SELECT arn FROM sys.iam_pg_role_mappings WHERE pg_role_name = %s"
_CONFLICT_RETRIES = 6


async def set_up(connection: psycopg.AsyncConnection, clock: Clock) -> None:
    """Role, schema, and the right to make tables in it; raises psycopg's errors."""
    for statement in SETUP:
        await insist(connection, statement, clock)


async def bind(connection: psycopg.AsyncConnection, iam_roles: Collection[str], clock: Clock) -> None:
    """Let these roles of IAM log in as ours, and no others; raises psycopg's errors."""
    rows = await (await connection.execute(_BOUND, (DATABASE_ROLE,))).fetchall()
    for statement in bindings({str(arn) for (arn,) in rows}, iam_roles):
        await insist(connection, statement, clock)


def bindings(have: Collection[str], wanted: Collection[str]) -> Iterable[sql.Composed]:
    """The statements that lead from one to the other; pure."""
    for arn in sorted(set(wanted) - set(have)):
        yield sql.SQL("AWS IAM GRANT {role} TO {arn}").format(role=_ROLE, arn=sql.Literal(arn))
    for arn in sorted(set(have) - set(wanted)):
        yield sql.SQL("AWS IAM REVOKE {role} FROM {arn}").format(role=_ROLE, arn=sql.Literal(arn))


async def insist(connection: psycopg.AsyncConnection, statement: sql.Composed, clock: Clock) -> None:
    """
    Execute DDL, again after conflicts: it is a transaction like any other. A role that is there already is fine.

    Raises:
        psycopg.Error: refused for another reason, or in conflict seven times.
    """
    for retries in range(_CONFLICT_RETRIES + 1):
        try:
            await connection.execute(statement)
        except psycopg.errors.DuplicateObject:
            return
        except psycopg.Error as error:
            if error.sqlstate not in CONFLICTS or retries == _CONFLICT_RETRIES:
                raise
            await clock.sleep_async(pause_s(retries, 0.5))
        else:
            return
