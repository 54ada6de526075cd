"""Part of `ValidatePlan`: durations of applications' functions from X-Ray, so that the stored plan has them all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.analysis.application import fill_durations, function_times
from stepbench.digits import counted
from stepbench.errors import Problem, raise_problems
from stepbench.planning import refuse_on_emulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Application, Plan, Traces
    from stepbench.services import Services

LIMIT_S = 120
"""All applications together have so long: no call is started after that, and the function has 180 s."""
SLICE = timedelta(hours=1)
"""The window is searched by the hour, newest first, so that the newest traces are read."""
IDS_PER_CALL = 5
"""BatchGetTraces takes no more."""
ROUNDS = 3
"""How often X-Ray is asked for what it left unprocessed."""
GIVE = "Give the functions with their duration_ms"
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnrecognizedClientException"})


class EndedTraces(NamedTuple):
    """Traces that have ended, newest hour first, and from when on all were looked for."""

    ids: tuple[str, ...]
    since: datetime


@dataclass(frozen=True)
class XRay:
    """
    The requests to X-Ray. Its calls raise what boto3 raises, and TimeoutError after `give_up_ns`.

    Source:
        AWS X-Ray API Reference, GetTraceSummaries and BatchGetTraces; filter expressions: X-Ray Developer Guide,
        xray-console-filters.
    """

    client: Any
    clock: Clock
    give_up_ns: int

    def find(self, traces: Traces) -> EndedTraces:
        """Find up to `max_traces` that went through the service of that name."""
        now = datetime.fromtimestamp(self.clock.now_ns() / 1e9, UTC)
        first = now - timedelta(hours=traces.last_hours)
        ids: dict[str, None] = {}
        since = now
        while since > first and len(ids) < traces.max_traces:
            until, since = since, max(first, since - SLICE)
            for name in self._ended(traces.name, since, until):
                ids[name] = None
                if len(ids) == traces.max_traces:
                    break
        return EndedTraces(tuple(ids), since)

    def documents(self, ids: Sequence[str]) -> list[list[str]]:
        """Return the segments' documents of each trace that X-Ray still has."""
        found: dict[str, list[str]] = {}
        wanted = list(ids)
        for _ in range(ROUNDS):
            left: list[str] = []
            for start in range(0, len(wanted), IDS_PER_CALL):
                for page in self._pages("batch_get_traces", TraceIds=wanted[start : start + IDS_PER_CALL]):
                    left += page.get("UnprocessedTraceIds", ())
                    for trace in page.get("Traces", ()):
                        segments = [segment["Document"] for segment in trace.get("Segments", ())]
                        found.setdefault(trace["Id"], []).extend(segments)
            wanted = [name for name in dict.fromkeys(left) if name not in found]
        return list(found.values())

    def _ended(self, name: str, since: datetime, until: datetime) -> Iterator[str]:
        request = {"TimeRangeType": "TraceId", "StartTime": since, "EndTime": until}
        for page in self._pages("get_trace_summaries", FilterExpression=f'service("{name}")', **request):
            for summary in page.get("TraceSummaries", ()):
                if not summary.get("IsPartial", False):
                    yield summary["Id"]

    def _pages(self, operation: str, **request: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 -- as boto3 takes it
        token: dict[str, str] = {}
        while True:
            if self.clock.now_ns() > self.give_up_ns:
                raise TimeoutError
            page = getattr(self.client, operation)(**request, **token)
            yield page
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}


def resolve_traces(plan: Plan, services: Services) -> Plan:
    """
    Return the plan with all durations; itself if it has them.

    Raises:
        PlanError: there is no X-Ray, it does not answer, or its traces do not show what the plan wants.
    """
    if services.settings.emulator:
        refuse_on_emulator(plan, services.settings.emulator)
    give_up_ns = services.clock.now_ns() + LIMIT_S * 10**9
    asked = [
        _resolve(each, f"applications[{index}]", services, give_up_ns) for index, each in enumerate(plan.applications)
    ]
    problems = [problem for each in asked if isinstance(each, list) for problem in each]
    raise_problems(problems)
    return plan.model_copy(update={"applications": tuple(asked)}) if plan.applications else plan


def _resolve(application: Application, path: str, services: Services, give_up_ns: int) -> Application | list[Problem]:
    traces = application.traces
    if traces is None or not application.needs_traces:
        return application
    try:
        xray = XRay(services.aws("xray"), services.clock, give_up_ns)
        found = xray.find(traces)
        documents = xray.documents(found.ids)
        times = function_times(documents)
    except (BotoCoreError, ClientError, TimeoutError, ValueError) as error:
        return [_unread(error, traces, path)]
    if not times:
        return [_nothing(found, traces, path)]
    until = services.now()
    traces_read = counted(len(documents), "trace")
    seen = f"X-Ray, medians of {traces_read}, {found.since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    return fill_durations(application, times, seen, path)


def _unread(error: Exception, traces: Traces, path: str) -> Problem:
    remedy = f"{GIVE}, or run the plan again."
    if isinstance(error, TimeoutError):
        message, remedy = f"took X-Ray more than {LIMIT_S} s", f"Lower max_traces or last_hours. {GIVE} otherwise."
    elif isinstance(error, ClientError) and error.response["Error"]["Code"] in DENIED:
        message = "are denied to ValidatePlan by X-Ray"
        remedy = f"Allow its role xray:GetTraceSummaries and xray:BatchGetTraces. {GIVE} otherwise."
    elif isinstance(error, ClientError):
        answer = error.response["Error"]
        message = f"are refused by X-Ray: {answer['Code']}: {answer.get('Message', '')}".rstrip(": ")
    elif isinstance(error, BotoCoreError):
        message = f"cannot be asked for, since X-Ray does not answer: {error}"
    else:
        message = f"cannot be understood: {error}"
    return Problem(path=f"{path}.traces", value=json.dumps(traces.name), message=message, remedy=remedy)


def _nothing(found: EndedTraces, traces: Traces, path: str) -> Problem:
    if found.ids:
        message = f"are {len(found.ids)}, and none shows a Lambda function that has ended"
        remedy = f"Turn on active tracing for its functions. {GIVE} otherwise."
    else:
        message = f"are none in the last {traces.last_hours:g} h"
        remedy = f"Check the name and the region, turn tracing on, or raise last_hours. {GIVE} otherwise."
    return Problem(path=f"{path}.traces", value=json.dumps(traces.name), message=message, remedy=remedy)
