"""
Task `MakeInput`, and its variants with other libraries: what a DAG begins with, made before the load and kept.

It is apart from the functions that run tasks, whose sandboxes would be warm from it.
"""

from __future__ import annotations

import ssl
import urllib.request
from functools import partial
from http.client import HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.dataflow.rows import MakeInputOutput
from stepbench.contracts.endpoint import file_problem, forbidden_name
from stepbench.errors import PlanError, Problem, TargetUnavailableError, harmless
from stepbench.experiments.dataflow.tasks.application import ApplicationError, find_maker
from stepbench.experiments.dataflow.tasks.application_parameters import source_problem
from stepbench.records.storage import layout
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.wire.http1.blocking import dial, secure
from stepbench.wire.http1.whole_calls import LimitedConnection, within

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.parse import SplitResult
    from urllib.request import Request

    from stepbench.contracts.dataflow.dag import DagInput
    from stepbench.contracts.dataflow.rows import MakeInputInput
    from stepbench.services import Services

CONNECT_S, DOWNLOAD_LIMIT_S = 10, 300
"""Time limits for connecting to an address, and for a whole file with all redirections."""
MOST_INPUT_BYTES = 512 * 2**20


def make_input(task: MakeInputInput, services: Services) -> MakeInputOutput:
    """
    Make a DAG's input, and fetch the files that its stages name, unless they are there; return their size together.

    Raises:
        PlanError: the application refuses the parameters, or a file is too large.
        TargetUnavailableError: a file cannot be had.
        TrialCancelledError: the trial is to stop.
    """
    spec = services.trial(task.ref)
    refuse_if_cancelled(spec.tag, services)
    dag = next(each for each in spec.offered.dags if each.name == task.dag)
    wanted: dict[str, Callable[[], bytes]] = {}
    if dag.input is not None:
        wanted[layout.dag_input_key(task.ref, dag.name)] = partial(_input, dag.name, dag.input, services)
    for stage in dag.stages:
        for name, source in stage.files.items():
            key, path = layout.dag_file_key(task.ref, dag.name, stage.name, name), f"{stage.name}.files.{name}"
            wanted[key] = partial(_fetched, f"dags[{dag.name}].stages.{path}", source, services)
    return MakeInputOutput(input_bytes=sum(_kept(key, make, services) for key, make in wanted.items()))


def _kept(key: str, make: Callable[[], bytes], services: Services) -> int:
    """Return the size of what is kept under a key, once it is there."""
    found = services.runs.find_bytes(key)
    if found is None:
        found = make()
        services.runs.put_bytes(key, found)
    return len(found)


class OnlyHttps(urllib.request.HTTPRedirectHandler):
    """Follows a redirection to what a plan might have named itself: no way leads into the network here."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:  # noqa: ANN401, PLR0913, PLR0917, RUF100 -- urllib's own
        """Return the next request. Raises URLError: it would not be by https, or to an address that is refused."""
        problem = "is not https" if urlsplit(newurl).scheme != "https" else file_problem(newurl)
        if problem:
            message = f"it leads to {newurl}, which {problem}"
            raise URLError(message)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _JudgedConnection(LimitedConnection, HTTPSConnection):
    """Resolves its host once, and connects to an address that was judged, in the name of the host."""

    def connect(self) -> None:
        """Connect. Raises OSError."""
        connected = dial(self.host, self.port, lambda: CONNECT_S, forbidden_name)
        connected.settimeout(CONNECT_S)
        self.sock = secure(connected, self.host, ssl.create_default_context())
        self.sock.settimeout(DOWNLOAD_LIMIT_S)
        self._note()


class _JudgedHttps(urllib.request.HTTPSHandler):
    """Opens https by `_JudgedConnection`."""

    def https_open(self, req: Request) -> Any:  # noqa: ANN401 -- urllib's
        """Open."""
        return self.do_open(_JudgedConnection, req)


def _input(dag: str, given: DagInput, services: Services) -> bytes:
    if given.source is not None or given.maker is None:
        return _fetched(f"dags[{dag}].input.source", given.source or "", services)
    try:
        return find_maker(given.maker)(given.parameters, given.seed)
    except ApplicationError as error:
        remedy = "Change input.parameters, or name another maker."
        raise PlanError([Problem(f"dags[{dag}].input", given.maker, str(error), remedy)]) from error


def _fetched(path: str, source: str, services: Services) -> bytes:
    """Return a file that a plan names at a path, if this stack fetches it; no message repeats a query."""
    if problem := source_problem(path, source, services.settings):
        raise PlanError([problem])
    parts = urlsplit(source)
    try:
        found = _from_s3(parts, services) if parts.scheme == "s3" else _from_web(source)
    except (OSError, HTTPException, ClientError, BotoCoreError) as error:
        message = harmless(f"{path}: the file cannot be had from {source}: {error}")
        raise TargetUnavailableError(
            message
        ) from None  # whose own text has the query, too, and would be logged with it
    if len(found) > MOST_INPUT_BYTES:
        message, remedy = f"is larger than {MOST_INPUT_BYTES:,} bytes", "Use a smaller file."
        raise PlanError([Problem(path, source, message, remedy)])
    return found


def _from_s3(parts: SplitResult, services: Services) -> bytes:
    with services.aws("s3").get_object(Bucket=parts.netloc, Key=parts.path.lstrip("/"))["Body"] as body:
        found: bytes = body.read(MOST_INPUT_BYTES + 1)
        return found


def _from_web(source: str) -> bytes:
    """Return a file. Raises OSError or HTTPException: it cannot be had, or has ended before its announced length."""
    opener = urllib.request.build_opener(OnlyHttps, _JudgedHttps)
    with within(DOWNLOAD_LIMIT_S), opener.open(source) as answer:
        found: bytes = answer.read(MOST_INPUT_BYTES + 1)
        announced = int(answer.headers["content-length"] or 0)
    if len(found) < min(announced, MOST_INPUT_BYTES):
        message = f"the answer ended after {len(found):,} of {announced:,} bytes"
        raise URLError(message)
    return found
