"""Runs: asked for, looked at, stopped. Each function is one route's work, without HTTP."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.api.plans import read_progress
from stepbench.api.resolver import ApiError, ErrorKind
from stepbench.contracts.api import Download, Links, QueuedRun, QueuePlace, RunList, RunView, WaitedFor
from stepbench.contracts.runs import DEFAULT_TEAM, MAX_CAUSE_CHARS
from stepbench.planning.reading import check_size
from stepbench.planning.requests import run_record
from stepbench.planning.wall_time import ahead_of, expected_starts
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery
from stepbench.stages.turns import execution_arn
from stepbench.stages.validate_plan import admit, enter_run
from stepbench.traces import annotate

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from stepbench.api.resolver import Caller
    from stepbench.contracts.api import RunFilter
    from stepbench.contracts.runs import QueueEntry, RunRecord, RunRequest, RunState
    from stepbench.services import Services

LINK_S = 300
MAX_NAME = 80
"""Of an execution."""
DOCUMENTS = {"report": "report.html", "summary": "summary.json"}
_RUN_FIELDS = set(RunView.model_fields) - {"queue", "progress", "links"}


def submit(request: RunRequest, key: str, caller: Caller, services: Services) -> RunView:
    """
    Start a run, or return the one that the same request with the same key has started.

    The run is entered in the register before its execution is started: whoever asks a second time finds it, and starts
    an execution of the same name and input, which Step Functions takes for the same one. Where the execution cannot be
    started, a run without a key is closed, since nobody can ask for it again; one with a key waits for who does, and
    the sweeper closes it.

    Raises:
        PlanError: the plan is refused; nothing was created.
        ApiError: the key has been used for another request.
        ClientError, BotoCoreError: Step Functions does not start the execution.
    """
    request = request.model_copy(update={"team": caller.team, "caller": caller.identity, "source": "api"})
    check_size(len(_document(request).encode()))  # written anew, it may be longer than it was sent
    found, now = admit(request, services), services.now()
    run_id = _run_id(found.plan.name, key, caller, now)
    annotate(run=run_id)
    digest = hashlib.sha256(_document(request.model_copy(update={"caller": ""})).encode()).hexdigest()
    record = run_record(run_id, request, found, now, services.settings).model_copy(update={"digest": digest})
    if not enter_run(record, services):
        record = _known(run_id, digest, services)
    if record.state == "submitted":
        document = _document(request.model_copy(update={"caller": record.caller}))
        try:
            _start(run_id, document, services)
        except (ClientError, BotoCoreError) as error:
            if not key:
                _close(record, "failed", f"its execution could not be started: {error}", services)
            raise
    return view(services.register.find(run_id) or record, caller, services)


def find(run_id: str, caller: Caller, services: Services) -> RunRecord:
    """
    Return a run that the caller may see.

    Raises:
        ApiError: there is none; another team's run is none, either.
    """
    record = services.register.find(run_id)
    if record is None or not caller.may_read(record):
        message = f"there is no run {run_id} of your team"
        raise ApiError(ErrorKind.NOT_FOUND, message)
    return record


def view(run: RunRecord, caller: Caller, services: Services, *, queue: list[QueueEntry] | None = None) -> RunView:
    """Return a run as its caller sees it, with its place in the queue or its progress."""
    place = None
    if run.state == "queued":
        place = _place(run, services.register.queue() if queue is None else queue, caller, services)
    return RunView(
        **run.model_dump(include=_RUN_FIELDS),
        queue=place,
        progress=read_progress(run, services) if run.state == "running" and queue is None else None,
        links=Links(**{name: f"/runs/{run.run_id}{part}" for name, part in _LINKS.items()}),
    )


_LINKS = {"self": "", "report": "/report", "summary": "/summary", "records": "/records"}


def check_team(team: str, caller: Caller) -> None:
    """Raise ApiError where a team's runs are not the caller's to list."""
    if team not in {caller.team, DEFAULT_TEAM}:
        message = f"team {team} is not yours, which is {caller.team}"
        raise ApiError(ErrorKind.NOT_PERMITTED, message)


def asked_for(wanted: RunFilter, caller: Caller) -> RunQuery:
    """Return the query that a list's parameters are."""
    same = wanted.model_dump(include={"plan", "since", "until", "limit"})
    return RunQuery(team=wanted.team or caller.team, states=wanted.state, after=wanted.page, **same)


def list_runs(query: RunQuery, caller: Caller, services: Services) -> RunList:
    """
    Return a page of a team's runs.

    Raises:
        ApiError: the team is not the caller's, or the page is none that was named.
    """
    check_team(query.team, caller)
    first, last = query.times
    if first > last:
        return RunList(runs=())
    if query.after and not (first <= query.after <= last and "~" in query.after):
        message = "the parameter page is none that an answer to this query has named"
        raise ApiError(ErrorKind.BAD_REQUEST, message)
    found = services.register.page(query)
    queue = services.register.queue() if any(run.state == "queued" for run in found.runs) else []
    runs = tuple(view(run, caller, services, queue=queue) for run in found.runs)
    return RunList(runs=runs, next=found.next or None)


def stop(run_id: str, caller: Caller, services: Services) -> RunView:
    """
    Stop a run: its execution is stopped, what runs of it is asked to end, and the sweeper tears down and closes it.

    A run that was entered and has no execution is closed at once: one that starts later finds it so, and ends.

    Raises:
        ApiError: there is no such run, or it is another team's to stop.
    """
    run = _find_own(run_id, caller, services)
    cause = f"stopped by {caller.identity}"
    if not run.ended:
        arn = execution_arn(run_id, services.settings)
        try:
            services.aws("stepfunctions").stop_execution(executionArn=arn, error="Stopped", cause=cause)
        except ClientError as error:
            match error.response["Error"]["Code"]:
                case "ExecutionDoesNotExist":
                    _close(run, "stopped", cause, services)
                case "ValidationException":  # it has ended in this moment
                    pass
                case _:
                    raise
    return view(services.register.find(run_id) or run, caller, services)


def acknowledge(run_id: str, why: str, caller: Caller, services: Services) -> RunView:
    """
    Accept the level that begins with a run: the plan's next runs are set against it.

    Raises:
        ApiError: there is no such run, it is another team's to judge, or it has not gone through.
    """
    run = _find_own(run_id, caller, services)
    changed = services.register.change(run_id, ("succeeded",), acknowledged=why)
    if changed is None:
        message = f"run {run_id} is {run.state}; a level begins with a run that went through"
        raise ApiError(ErrorKind.CONFLICT, message)
    return view(changed, caller, services)


def download(run: RunRecord, document: str, trial: int, services: Services) -> Download:
    """
    Return a link to a run's document, good for five minutes.

    Raises:
        ApiError: the run has no such document, or not yet.
    """
    key = layout.run_key(run.run_id, DOCUMENTS.get(document, f"trials/{trial:04d}/records.parquet"))
    services_s3, bucket = services.aws("s3"), services.runs.bucket
    try:
        services_s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"404", "NoSuchKey"}:
            raise
        message = f"run {run.run_id} has no {document}{'' if run.ended else ' yet'}; its state is {run.state}"
        raise ApiError(ErrorKind.NOT_FOUND, message) from error
    url = services_s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=LINK_S)
    return Download(url=url, expires_at=services.now() + timedelta(seconds=LINK_S))


def _find_own(run_id: str, caller: Caller, services: Services) -> RunRecord:
    run = find(run_id, caller, services)
    if not caller.may_change(run):
        message = f"run {run.run_id} belongs to team {run.team}, and you are of team {caller.team}"
        raise ApiError(ErrorKind.NOT_PERMITTED, message)
    return run


def _known(run_id: str, digest: str, services: Services) -> RunRecord:
    record = services.register.find(run_id)
    if record is None or record.digest != digest:
        message = f"the Idempotency-Key was used for another request, which became run {run_id}; take a new key"
        raise ApiError(ErrorKind.CONFLICT, message)
    return record


def _start(run_id: str, document: str, services: Services) -> None:
    """Start the execution; one that has been started already, or has ended, is the same run."""
    try:
        services.aws("stepfunctions").start_execution(
            stateMachineArn=services.settings.benchmark_arn, name=run_id, input=document
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            raise


def _run_id(plan: str, key: str, caller: Caller, now: datetime) -> str:
    """Return a new id; with a key, the one that this team's key always has."""
    if key:
        tail = f"-{hashlib.sha256(json.dumps([caller.team, key]).encode()).hexdigest()[:24]}"
        return f"key{tail}"
    tail = f"-{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    return re.sub(r"[^A-Za-z0-9_-]", "-", plan)[: MAX_NAME - len(tail)] + tail


def _document(request: RunRequest) -> str:
    """Return the execution's input."""
    return request.model_dump_json(exclude_defaults=True)


def _close(run: RunRecord, state: RunState, cause: str, services: Services) -> None:
    """Close a run that has no execution, which gives back what was reserved for it."""
    ended = {"state": state, "finished_at": services.now(), "cause": cause[:MAX_CAUSE_CHARS]}
    services.register.change(run.run_id, ("submitted",), **ended)


def _place(run: RunRecord, queue: list[QueueEntry], caller: Caller, services: Services) -> QueuePlace | None:
    entry = next((each for each in queue if each.run_id == run.run_id), None)
    if entry is None or entry.admitted_at:
        return None
    ahead = ahead_of(entry, queue)
    now = services.now()
    return QueuePlace(
        position=1 + sum(not each.admitted_at for each in ahead),
        waits_for=tuple(_waited_for(each, entry.targets, caller) for each in ahead),
        waiting_since=entry.arrived_at,
        expected_start=expected_starts(queue, now).get(run.run_id, now),
    )


def list_queue(caller: Caller, services: Services) -> tuple[QueuedRun, ...]:
    """Return everyone in the queue in order of arrival; of another team's targets, those that the caller's need."""
    queue = services.register.queue()
    own = {target for entry in queue if entry.team == caller.team for target in entry.targets}
    now = services.now()
    starts = expected_starts(queue, now)
    number = {entry.run_id: place for place, entry in enumerate(queue, 1)}
    return tuple(
        QueuedRun(
            **_waited_for(entry, entry.targets if _is_named(entry, caller) else own, caller).model_dump(),
            waiting_since=entry.arrived_at,
            expected_start=starts.get(entry.run_id, now),
            waits_for=() if entry.admitted_at else tuple(number[each.run_id] for each in ahead_of(entry, queue)),
        )
        for entry in queue
    )


def _is_named(entry: QueueEntry, caller: Caller) -> bool:
    return entry.team in {caller.team, DEFAULT_TEAM}


def _waited_for(entry: QueueEntry, needed: Collection[str], caller: Caller) -> WaitedFor:
    """Return a run ahead, with its targets that are needed; of another team's, else only how long it takes."""
    known: dict[str, Any] = {"run_id": entry.run_id, "team": entry.team, "plan": entry.plan}
    return WaitedFor(
        **(known if _is_named(entry, caller) else {}),
        targets=tuple(sorted(set(entry.targets) & set(needed))),
        running_since=entry.admitted_at,
        expected_s=entry.expected_s,
    )
