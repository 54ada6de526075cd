"""Which of the stack's PostgreSQL servers serves a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings


def stack_endpoint(spec: TrialSpec, settings: Settings) -> str:
    """
    Return the address of the stack's server that serves the trial, `host:port/database`.

    Where the stack knows a server for TLS, that one serves operations without TLS, too: so the two differ in TLS only.
    """
    of_operations = settings.postgresql_tls_endpoint if spec.plan.workload is not None else ""
    return of_operations or settings.postgresql_endpoint
