"""Files of DAGs that a plan names: which of them a stack fetches, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stepbench.contracts.dataflow.dag import Dag
from stepbench.errors import Problem, without_queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.settings import Settings


def named_sources(dag: Dag) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that the DAG names, below the DAG, and its address."""
    if dag.input is not None and dag.input.source is not None:
        yield "input.source", dag.input.source
    for number, stage in enumerate(dag.stages):
        yield from ((f"stages[{number}].files.{name}", source) for name, source in stage.files.items())


def source_problem(path: str, source: str, settings: Settings) -> Problem | None:
    """
    Return why this stack does not fetch a file; None if it does.

    Of S3 it fetches from its own bucket of files alone: its functions may read the results bucket, too, in which other
    teams' runs are. From the web it fetches where plans may name servers.
    """
    parts = urlsplit(source)
    if parts.scheme == "s3" and parts.netloc != settings.files_bucket:
        message = f"is not in this stack's bucket of files, {settings.files_bucket or 'of which it has none'}"
        return Problem(path, source, message, "Copy it there (output FilesBucketName).")
    if parts.scheme != "s3" and not settings.permits_addresses:
        remedy = (
            "Copy the file into the stack's bucket (output FilesBucketName), or deploy with AllowCustomEndpoints=true."
        )
        return Problem(path, source, "is not permitted on this stack, which connects to no servers of plans", remedy)
    return None


def shown_dags(dags: Iterable[Dag]) -> tuple[Dag, ...]:
    """Return DAGs as results show them: a signed address of a file is a key to it, and another one in each run."""
    return tuple(Dag.model_validate(without_queries(dag.model_dump(mode="json", by_alias=True))) for dag in dags)
