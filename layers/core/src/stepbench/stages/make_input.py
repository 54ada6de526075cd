"""
Task `MakeInput`, and its variants with other libraries: what a DAG begins with, made before the load and kept.

It is apart from the functions that run tasks, whose sandboxes would be warm from it.
"""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.dataflow_rows import MakeInputOutput
from stepbench.dataflow.application import ApplicationError, find_maker
from stepbench.errors import PlanError, Problem, TargetUnavailableError
from stepbench.records.storage import layout
from stepbench.stages.target_driver import refuse_if_cancelled

if TYPE_CHECKING:
    from urllib.request import Request

    from stepbench.contracts.dataflow import DagInput
    from stepbench.contracts.dataflow_rows import MakeInputInput
    from stepbench.stages.services import Services

DOWNLOAD_LIMIT_S = 300
MOST_INPUT_BYTES = 512 * 2**20


def make_input(task: MakeInputInput, services: Services) -> MakeInputOutput:
    """
    Make a DAG's input, unless it is there.

    Raises:
        PlanError: the application refuses the parameters, or the file that is to be used is too large.
        TargetUnavailableError: the file that is to be used cannot be had.
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    dag = next(each for each in spec.offered.dags if each.name == task.dag)
    if dag.input is None:
        return MakeInputOutput(input_bytes=0)
    key = layout.dag_input_key(task.ref, dag.name)
    made = services.runs.find_bytes(key)
    if made is None:
        made = (
            _made(dag.name, dag.input) if dag.input.source is None else _fetched(dag.name, dag.input.source, services)
        )
        services.runs.put_bytes(key, made)
    return MakeInputOutput(input_bytes=len(made))


class OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Follows a redirection to https alone, as the plan's own source has to be: no way leads into the network here."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:  # noqa: ANN401, PLR0913, PLR0917, RUF100 -- urllib's own
        """Return the next request. Raises URLError: it would not be by https."""
        if urlsplit(newurl).scheme != "https":
            message = f"it leads to {newurl}, which is not https"
            raise URLError(message)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _made(dag: str, given: DagInput) -> bytes:
    try:
        return find_maker(given.maker)(given.parameters, given.seed)
    except ApplicationError as error:
        remedy = "Change input.parameters, or name another maker."
        raise PlanError([Problem(f"dags[{dag}].input", given.maker, str(error), remedy)]) from error


def _fetched(dag: str, source: str, services: Services) -> bytes:
    """Return a file that a plan names; one of S3 has to be in a bucket that the function may read."""
    parts = urlsplit(source)
    try:
        if parts.scheme == "s3":
            body = services.aws("s3").get_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))["Body"]
        else:
            body = urllib.request.build_opener(OnlyHttps).open(source, timeout=DOWNLOAD_LIMIT_S)
        with body:
            found: bytes = body.read(MOST_INPUT_BYTES + 1)
    except (URLError, OSError, ClientError, BotoCoreError) as error:
        message = f"the input of {dag} cannot be had from {source}: {error}"
        raise TargetUnavailableError(message) from error
    if len(found) > MOST_INPUT_BYTES:
        message, remedy = f"is larger than {MOST_INPUT_BYTES:,} bytes", "Use a smaller file."
        raise PlanError([Problem(f"dags[{dag}].input.source", source, message, remedy)])
    return found
