"""
Creation of clusters of Aurora DSQL: a trial creates them, times each, and deletes all of them.

An insert is a creation. t1 is before CreateCluster, t2 when GetCluster has first answered ACTIVE, of a pair for both. A
pair takes the three steps of the documentation: a cluster with a witness, its peer in another region, and then the
first is given its peer. The state is asked for every `POLL_S`, so that a time is too long by that and an answer at
most. A pair of which one part is refused has failed; tear-down deletes the other.

Every cluster has two tags: the stack's, which the right to change and to delete it is bound to, and the trial's, by
which tear-down finds it, also where the writer that created it is gone. What a killed writer's last request makes after
that, the sweeper finds, which looks once more (`MakesLate`).

Source:
    Aurora DSQL User Guide: "Configuring multi-Region clusters", "Cluster lifecycle", "Cluster quotas".
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from stepbench.contracts.target import DsqlTarget
from stepbench.contracts.workload import ClusterRecord, Kind
from stepbench.drivers.aws import AwsAccess
from stepbench.drivers.sql.access import target_error
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import TIMEOUT
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings

    Ended = tuple[Outcome, str]
    """How a request ended: the outcome, the error."""

POLL_S: Final = 0.5
CREATION_LIMIT_S = 300.0
"""A creation without an end by then is UNKNOWN. Published: about 8 s, of a pair 115 s at most."""
STACK_TAG, TRIAL_TAG = "stepbench:trials-of", "stepbench:trial"
_LEAVING = frozenset({"DELETING", "PENDING_DELETE", "DELETED"})
_GONE, _DENIED, _IN_THE_WAY = "ResourceNotFoundException", "AccessDeniedException", "ConflictException"
_SERVERS_OWN = 500


class _Cluster(NamedTuple):
    region: str
    identifier: str
    arn: str


class DsqlClusters:
    """`Driver` of the clusters that one trial creates: each in one region, or in pairs in two."""

    late_s = CREATION_LIMIT_S
    """See `MakesLate`. The service has answered long before."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, creation_limit_s: float = CREATION_LIMIT_S
    ) -> None:
        """
        `creation_limit_s`: when a creation is given up.

        Raises:
            PlanError: the trial is not one that creates clusters.
        """
        target, workload = spec.offered.target, spec.offered.workload
        if not isinstance(target, DsqlTarget) or workload is None or not isinstance(workload.record, ClusterRecord):
            raise target_error(spec, "creates no clusters", 'Give it workload.record {"shape": "cluster"}.')
        self._tag, self._clock = spec.tag, clock
        self._tags = {STACK_TAG: settings.function_prefix, TRIAL_TAG: spec.tag}
        self._limit_ns = round(creation_limit_s * 1e9)
        self._witness, peer = workload.record.witness_region, workload.record.peer_region
        self._regions = [target.region or settings.aws_region, *([peer] if peer else [])]
        self._access = {
            region: AwsAccess("dsql", spec, settings.model_copy(update={"aws_region": region}), clock)
            for region in self._regions
        }
        self._calls: set[asyncio.Future[dict[str, Any]]] = set()

    async def open(self) -> None:
        """Make the clients, so that no creation waits for that; nothing is asked for."""
        for access in self._access.values():
            await access.client()

    async def prepare(self) -> None:
        """Create nothing: that is what is measured."""

    async def ready(self) -> bool:
        """Return True once each region has listed its clusters."""
        for region in self._regions:
            await self._identifiers(region)
        return True

    def prepare_request(self, request: Request) -> PendingRequest:
        """Prepare a creation; of any other kind, a look at whether the regions answer."""
        steps = self._create if request.kind is Kind.INSERT else self._look
        return CoroutineRequest(partial(self._timed, steps), self._clock)

    async def tear_down(self) -> bool:
        """
        Have everything deleted that has the trial's tag; return whether nothing is left.

        Of a pair none is gone before both are asked to go. A region that does not answer spares no other.
        """
        left, failures = False, []
        for region in self._regions:
            try:
                async for identifier, status in self._own(region):
                    left = True
                    if status not in _LEAVING:
                        await self._delete(region, identifier)
            except TargetUnavailableError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return not left

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return tuple(f"clusters tagged {TRIAL_TAG}={self._tag} in {region}" for region in self._regions)

    async def provider(self) -> str:
        """Return what is timed, and with which resolution."""
        what, regions = "pairs" if self._witness else "clusters", " and ".join(self._regions)
        witness = f" (witness {self._witness})" if self._witness else ""
        return f"Aurora DSQL, creation of {what} in {regions}{witness}, looked at every {POLL_S:g} s"

    async def close(self) -> None:
        """Await what the service has been asked for: whatever is created then is there before tear-down looks."""
        if self._calls:
            await asyncio.wait(self._calls)
        for access in self._access.values():
            await access.close()

    # --- what is timed -----------------------------------------------------------------------------------------------

    async def _timed(self, steps: Callable[[list[_Cluster]], Awaitable[Ended]]) -> Result:
        t1_ns = self._clock.now_ns()
        asked_for: list[_Cluster] = []
        try:
            outcome, error = await steps(asked_for)
        except TargetUnavailableError as unavailable:
            outcome, error = _ended(unavailable)
        token = ",".join(cluster.identifier for cluster in asked_for)
        return Result(t1_ns, self._clock.now_ns(), outcome, token, error)

    async def _look(self, _asked_for: list[_Cluster]) -> Ended:
        await self.ready()
        return Outcome.OK, ""

    async def _create(self, asked_for: list[_Cluster]) -> Ended:
        until_ns = self._clock.now_ns() + self._limit_ns
        await self._ask_for(asked_for)
        waiting = list(asked_for)
        while True:
            for cluster in tuple(waiting):
                status = await self._status(cluster)
                if status == "ACTIVE":
                    waiting.remove(cluster)
                elif status == "FAILED" or status in _LEAVING:
                    return Outcome.FAILED, f"cluster {status}"
            if not waiting:
                return Outcome.OK, ""
            if self._clock.now_ns() >= until_ns:
                return Outcome.UNKNOWN, TIMEOUT
            await self._clock.sleep_async(POLL_S)

    async def _status(self, cluster: _Cluster) -> str:
        """Return a cluster's status; "" where the service does not say, which ends no creation: it is asked again."""
        try:
            return str((await self._ask(cluster.region, "get_cluster", identifier=cluster.identifier))["status"])
        except TargetUnavailableError:
            return ""

    async def _ask_for(self, asked_for: list[_Cluster]) -> None:
        """Ask for one cluster, or for two that are each other's peers; each is added as it is being created."""
        here, *there = self._regions
        if not there:
            asked_for.append(await self._ask_for_one(here))
            return
        witness = {"witnessRegion": self._witness}
        first = await self._ask_for_one(here, multiRegionProperties=witness)
        asked_for.append(first)
        peer = await self._ask_for_one(there[0], multiRegionProperties={**witness, "clusters": [first.arn]})
        asked_for.append(peer)
        peered = {**witness, "clusters": [peer.arn]}
        await self._ask(here, "update_cluster", identifier=first.identifier, multiRegionProperties=peered)

    async def _ask_for_one(self, region: str, **regions: Any) -> _Cluster:  # noqa: ANN401 -- boto3's
        created = await self._ask(region, "create_cluster", deletionProtectionEnabled=False, tags=self._tags, **regions)
        return _Cluster(region, str(created["identifier"]), str(created["arn"]))

    # --- the service -------------------------------------------------------------------------------------------------

    async def _ask(self, region: str, operation: str, **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- boto3's
        """
        Return the answer to a call. Where the waiting is cancelled, the call goes on, and `close` awaits it.

        Raises:
            TargetUnavailableError: a refusal, or no answer; `__cause__` is botocore's error.
        """
        call = asyncio.ensure_future(self._access[region].ask(operation, **request))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(call)
        except TargetUnavailableError as error:
            remedy = ". Deploy the stack with Dsql=creations" if _code(error) == _DENIED else ""
            message = f"{region}: {error}{remedy}"
            raise type(error)(message) from error.__cause__

    async def _identifiers(self, region: str) -> list[str]:
        found: list[str] = []
        page: dict[str, Any] = {}
        while True:
            page = await self._ask(region, "list_clusters", **({"nextToken": page["nextToken"]} if page else {}))
            found += [str(cluster["identifier"]) for cluster in page["clusters"]]
            if not page.get("nextToken"):
                return found

    async def _own(self, region: str) -> AsyncIterator[tuple[str, str]]:
        """Yield identifier and status of each of the trial's clusters that is not gone."""
        for identifier in await self._identifiers(region):
            try:
                cluster = await self._ask(region, "get_cluster", identifier=identifier)
            except TargetUnavailableError as error:
                if _code(error) != _GONE:
                    raise
                continue
            if cluster.get("tags", {}).get(TRIAL_TAG) == self._tag and cluster["status"] != "DELETED":
                yield identifier, str(cluster["status"])

    async def _delete(self, region: str, identifier: str) -> None:
        """Have a cluster deleted; one that is gone needs none, and one that is still changing gets it next time."""
        try:
            await self._ask(region, "delete_cluster", identifier=identifier)
        except TargetUnavailableError as error:
            if _code(error) not in {_GONE, _IN_THE_WAY}:
                raise


def _code(error: TargetUnavailableError) -> str:
    """Return the service's code of a refusal; "" where there was no answer."""
    cause = error.__cause__
    return str(cause.response["Error"]["Code"]) if isinstance(cause, ClientError) else ""


def _ended(error: TargetUnavailableError) -> Ended:
    """Return how a request ended by what was raised: refused, or without an answer that says so."""
    cause = error.__cause__
    if not isinstance(cause, ClientError):
        return Outcome.UNKNOWN, type(cause).__name__
    refused = int(cause.response["ResponseMetadata"]["HTTPStatusCode"]) < _SERVERS_OWN
    return (Outcome.FAILED if refused else Outcome.UNKNOWN), _code(error)
