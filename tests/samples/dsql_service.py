"""
The control plane of Aurora DSQL on loopback, in as many regions as are asked for, by botocore's model of the service.

What it answers is held against the model's shapes. A region is that of the request's signature. States are those of the
documentation: CREATING until `creation_s` have passed, PENDING_SETUP of a cluster with a witness whose peer is not
named yet, CREATING of both peers for `pair_s` from the moment that each names the other; a peer that is deleted is
PENDING_DELETE until the other is, too; what is DELETING is gone after `deletion_s`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

if TYPE_CHECKING:
    from stepbench.clock import Clock

Json = dict[str, Any]
MODEL = ServiceModel(Loader().load_service_model("dsql", "service-2"), "dsql")
PAGE = 2
"""Clusters of a page of the list: few, so that every list of a test has several."""
_REGION = re.compile(r"Credential=[^/]+/\d+/([^/]+)/dsql/")
_ERRORS = {
    "AccessDeniedException": (403, {}),
    "ConflictException": (409, {}),
    "InternalServerException": (500, {}),
    "ResourceNotFoundException": (404, {"resourceId": "r", "resourceType": "cluster"}),
    "ServiceQuotaExceededException": (
        402, {"resourceId": "r", "resourceType": "cluster", "serviceCode": "dsql", "quotaCode": "L-1"},
    ),
}  # fmt: skip


class Call(NamedTuple):
    """A call as it came in."""

    region: str
    operation: str
    request: Json


@dataclass
class Cluster:
    """One cluster. `changed_at_ns`: when it was created, got its peer, or was asked to go."""

    region: str
    identifier: str
    tags: dict[str, str]
    witness: str | None
    peers: list[str]
    changed_at_ns: int
    fails: bool = False
    leaving: bool = False

    @property
    def arn(self) -> str:
        """Return its ARN."""
        return f"arn:aws:dsql:{self.region}:000000000000:cluster/{self.identifier}"


class RefusedError(Exception):
    """The service refuses, with a code."""


NOT_FOUND, TOO_MANY, CONFLICT = "ResourceNotFoundException", "ServiceQuotaExceededException", "ConflictException"


@dataclass
class DsqlService:
    """
    The service; start it with `with`.

    refusals: codes by region and operation, which are answered each time. away: regions that close every connection.
    fails: how many clusters, from the first on, become FAILED. held: calls of `CreateCluster` wait until it is set.
    """

    clock: Clock
    creation_s: float = 8
    pair_s: float = 110
    deletion_s: float = 60
    quota: int = 20
    fails: int = 0
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    held: Event = field(default_factory=Event)
    heard: Event = field(default_factory=Event)
    """A call has come in."""
    asked: list[Call] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Listen."""
        self.held.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"of": self}))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def operations(self, region: str = "") -> list[str]:
        """Return which calls came, of one region or of all, but for those that only look."""
        seen = [call for call in self.asked if call.operation not in {"ListClusters", "GetCluster"}]
        return [call.operation for call in seen if region in {"", call.region}]

    def states(self) -> list[str]:
        """Return the states of all clusters that are not gone, in the order in which they were created."""
        return [self.status_of(each) for each in self.clusters if not self._is_gone(each)]

    def add(self, region: str, **tags: str) -> Cluster:
        """Have a cluster there that somebody else has created, long ago."""
        cluster = Cluster(region, f"{len(self.clusters):026x}", tags, None, [], 0)
        self.clusters.append(cluster)
        return cluster

    def answer(self, call: Call) -> Json:
        """Return the answer to a call, as the model has it; raises RefusedError."""
        self.asked.append(call)
        self.heard.set()
        if code := self.refusals.get((call.region, call.operation)):
            raise RefusedError(code)
        answers = {
            "CreateCluster": self._create,
            "UpdateCluster": self._update,
            "GetCluster": lambda call: self._described(self._found(call)),
            "ListClusters": self._list,
            "DeleteCluster": self._delete,
        }
        return answers[call.operation](call)

    def status_of(self, cluster: Cluster) -> str:
        """Return a cluster's state now."""
        peers = [each for each in self.clusters if each.arn in cluster.peers and not self._is_gone(each)]
        if cluster.leaving:
            return "DELETING" if all(peer.leaving for peer in peers) else "PENDING_DELETE"
        mutual = [peer for peer in peers if cluster.arn in peer.peers]
        if cluster.witness and not mutual:
            return "PENDING_SETUP"
        since_ns = max(cluster.changed_at_ns, *(peer.changed_at_ns for peer in mutual), 0)
        if self.clock.now_ns() - since_ns < (self.pair_s if mutual else self.creation_s) * 1e9:
            return "CREATING"
        return "FAILED" if cluster.fails else "ACTIVE"

    def _is_gone(self, cluster: Cluster) -> bool:
        peers = [each for each in self.clusters if each.arn in cluster.peers]
        since_ns = max(cluster.changed_at_ns, *(peer.changed_at_ns for peer in peers), 0)
        leaving = cluster.leaving and all(peer.leaving for peer in peers)
        return leaving and self.clock.now_ns() - since_ns >= self.deletion_s * 1e9

    def _here(self, region: str) -> list[Cluster]:
        return [each for each in self.clusters if each.region == region and not self._is_gone(each)]

    def _found(self, call: Call) -> Cluster:
        found = next((each for each in self._here(call.region) if each.identifier == call.request["identifier"]), None)
        if found is None:
            raise RefusedError(NOT_FOUND)
        return found

    def _create(self, call: Call) -> Json:
        self.held.wait(30)
        if len(self._here(call.region)) >= self.quota:
            raise RefusedError(TOO_MANY)
        regions = call.request.get("multiRegionProperties", {})
        cluster = self.add(call.region, **call.request["tags"])
        cluster.changed_at_ns, cluster.fails = self.clock.now_ns(), len(self.clusters) <= self.fails
        cluster.witness, cluster.peers = regions.get("witnessRegion"), list(regions.get("clusters", ()))
        return {**self._brief(cluster), "deletionProtectionEnabled": call.request["deletionProtectionEnabled"]}

    def _update(self, call: Call) -> Json:
        cluster, regions = self._found(call), call.request["multiRegionProperties"]
        cluster.peers, cluster.changed_at_ns = list(regions["clusters"]), self.clock.now_ns()
        return self._brief(cluster)

    def _list(self, call: Call) -> Json:
        first = int(call.request.get("next-token", 0))
        here = self._here(call.region)
        page = [{"identifier": each.identifier, "arn": each.arn} for each in here[first : first + PAGE]]
        return {"clusters": page, **({"nextToken": str(first + PAGE)} if first + PAGE < len(here) else {})}

    def _delete(self, call: Call) -> Json:
        cluster = self._found(call)
        if cluster.leaving:
            raise RefusedError(CONFLICT)
        cluster.leaving, cluster.changed_at_ns = True, self.clock.now_ns()
        return self._brief(cluster)

    def _brief(self, cluster: Cluster) -> Json:
        created_s = cluster.changed_at_ns / 1e9
        status = self.status_of(cluster)
        return {"identifier": cluster.identifier, "arn": cluster.arn, "status": status, "creationTime": created_s}

    def _described(self, cluster: Cluster) -> Json:
        return {**self._brief(cluster), "deletionProtectionEnabled": False, "tags": cluster.tags}


def _operation_of(method: str, path: str) -> tuple[str, Json]:
    """Return which of the model's operations a request is, and what its path says."""
    for name in ("CreateCluster", "GetCluster", "UpdateCluster", "DeleteCluster", "ListClusters"):
        http = MODEL.operation_model(name).http
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", http["requestUri"])
        if method == http["method"] and (found := re.fullmatch(pattern, path)):
            return name, found.groupdict()
    raise RefusedError(NOT_FOUND)


class _Handler(BaseHTTPRequestHandler):
    """Reads a request as the protocol rest-json has it, and writes the answer."""

    of: DsqlService
    protocol_version = "HTTP/1.1"
    wbufsize = 65_536
    """Head and body go out together: apart, the second would wait 40 ms for the first one's acknowledgement."""

    def do_GET(self) -> None:
        """Answer."""
        found = _REGION.search(self.headers["Authorization"] or "")
        region = found[1] if found else ""
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if region in self.of.away:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        try:
            operation, named = _operation_of(self.command, path)
            queried = dict(part.split("=", 1) for part in query.split("&") if part)
            answer = self.of.answer(Call(region, operation, {**json.loads(body or b"{}"), **queried, **named}))
            shape = MODEL.operation_model(operation).output_shape
            assert shape is not None
            report = ParamValidator().validate(answer, shape)
            assert not report.has_errors(), report.generate_report()
            self._write(200, answer)
        except RefusedError as refused:
            code = str(refused)
            status, more = _ERRORS[code]
            self._write(status, {"message": code, **more}, code)

    do_POST = do_DELETE = do_GET  # noqa: N815 -- http.server's

    def _write(self, status: int, answer: Json, error: str = "") -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        if error:
            self.send_header("x-amzn-ErrorType", error)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
