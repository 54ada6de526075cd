"""Custom resources of Aurora DSQL, on botocore's own model of the service (its Stubber refuses calls that are none)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.contracts.custom_resource import BootstrapDsqlInput, CustomResourceAnswer
from stepbench.stages.bootstrap_dsql import bootstrap_dsql, region_of_arn

ROOT = Path(__file__).parents[3]
HERE, THERE = "us-east-1", "us-east-2"
ID, PEER_ID = "a" * 26, "b" * 26
ARN, PEER_ARN = f"arn:aws:dsql:{THERE}:000000000000:cluster/{ID}", f"arn:aws:dsql:{HERE}:000000000000:cluster/{PEER_ID}"
HOST = f"{ID}.dsql.{THERE}.on.aws"
ANSWERS = "https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com/answer?signed"
CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_NS = 1_767_323_053_200_000_000
"""It is 8.2 s later."""
PAIR = {"PeerArn": PEER_ARN, "WitnessRegion": "us-west-2"}


class Scene:
    """Two regions of DSQL, and CloudFormation's ear."""

    def __init__(self) -> None:
        made = {
            region: boto3.client("dsql", region_name=region, aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106
            for region in (HERE, THERE)
        }
        self._clients = made
        self.stubs = {region: Stubber(client) for region, client in made.items()}
        self.heard: list[tuple[str, dict[str, Any]]] = []
        for stub in self.stubs.values():
            stub.activate()

    def created(self, status: str = "CREATING", **regions: Any) -> None:  # noqa: ANN401 -- JSON
        """Expect that a cluster is made there."""
        asked = {"deletionProtectionEnabled": False, "tags": {"stepbench:stack": "bench"}, "clientToken": "request-1"}
        answer = self._status(status) | {"deletionProtectionEnabled": False}
        self.stubs[THERE].add_response("create_cluster", answer, {**asked, **regions})

    def tagged(self, active_after_s: str) -> None:
        """Expect that the cluster is told how long it took."""
        tags = {"stepbench:stack": "bench", "stepbench:active-after-s": active_after_s}
        self.stubs[THERE].add_response("tag_resource", {}, {"resourceArn": ARN, "tags": tags})

    def status(self, region: str, status: str, **more: Any) -> None:  # noqa: ANN401 -- JSON
        """Expect a request for the status of a region's cluster, and answer it."""
        answer = self._status(status, region) | {"deletionProtectionEnabled": False, **more}
        identifier = {"identifier": ID if region == THERE else PEER_ID}
        self.stubs[region].add_response("get_cluster", answer, identifier)

    def updated(self) -> None:
        """Expect that the peer is told of the other."""
        asked = {"identifier": PEER_ID, "multiRegionProperties": {"witnessRegion": "us-west-2", "clusters": [ARN]}}
        self.stubs[HERE].add_response("update_cluster", self._status("UPDATING", HERE), asked)

    def ask(self, request: str, properties: dict[str, Any] | None = None, physical: str = "") -> CustomResourceAnswer:
        """Send a request as CloudFormation does."""
        event = {
            "RequestType": request,
            "ResponseURL": ANSWERS,
            "StackId": "stack",
            "RequestId": "request-1",
            "LogicalResourceId": "DsqlPeerCluster",
            "ResourceType": "Custom::DsqlCluster",
            "ResourceProperties": {"Kind": "cluster", "Region": THERE, "Stack": "bench", **(properties or {})},
        } | ({"PhysicalResourceId": physical} if physical else {})
        said = bootstrap_dsql(
            BootstrapDsqlInput.model_validate(event),
            MemoryServices(FakeClock(NOW_NS)).services,
            client_of=self._clients.__getitem__,
            answer=lambda url, body: self.heard.append((url, json.loads(body))),
        )
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()
        return said

    @staticmethod
    def _status(status: str, region: str = THERE) -> dict[str, Any]:
        arn = ARN if region == THERE else PEER_ARN
        return {"identifier": arn[-26:], "arn": arn, "status": status, "creationTime": CREATED}


@pytest.fixture
def scene() -> Scene:
    """Return what CloudFormation asks."""
    return Scene()


def test_a_cluster_in_another_region_is_made_and_named(scene: Scene) -> None:
    """Its endpoint and ARN are attributes that the template reads."""
    scene.created()
    scene.status(THERE, "ACTIVE")
    scene.status(THERE, "ACTIVE", endpoint=HOST)
    scene.tagged("8.2")
    said = scene.ask("Create")
    attributes = {"Arn": ARN, "Endpoint": HOST, "ActiveAfterS": "8.2"}
    assert (said.Status, said.PhysicalResourceId, said.Data) == ("SUCCESS", ARN, attributes)
    assert scene.heard == [(ANSWERS, said.model_dump())]


def test_peers_are_told_of_each_other(scene: Scene) -> None:
    """The second is made with witness and peer, then the first is told; one that is told already is not told again."""
    scene.created(multiRegionProperties={"witnessRegion": "us-west-2", "clusters": [PEER_ARN]})
    scene.status(HERE, "PENDING_SETUP", multiRegionProperties={"witnessRegion": "us-west-2"})
    scene.updated()
    scene.status(HERE, "ACTIVE")
    scene.status(THERE, "ACTIVE")
    scene.status(THERE, "ACTIVE", endpoint=HOST)
    scene.tagged("8.2")
    assert scene.ask("Create", PAIR).Status == "SUCCESS"
    told = {"witnessRegion": "us-west-2", "clusters": [PEER_ARN, ARN]}
    scene.status(HERE, "ACTIVE", multiRegionProperties=told)
    scene.status(HERE, "ACTIVE")
    scene.status(THERE, "ACTIVE")
    scene.status(THERE, "ACTIVE", endpoint=HOST)
    assert scene.ask("Update", PAIR, ARN).PhysicalResourceId == ARN


@pytest.mark.parametrize("request_type", ["Create", "Update"])
@pytest.mark.parametrize("tags", [{}, {"stepbench:active-after-s": "8.0"}])
def test_the_time_of_a_cluster_that_was_there_is_what_its_tag_says(request_type: str, tags: dict[str, str]) -> None:
    """A request that is delivered twice would find a cluster that took no time, or hours."""
    scene = Scene()
    if request_type == "Create":
        scene.created(status="ACTIVE")
    scene.status(THERE, "ACTIVE")
    scene.status(THERE, "ACTIVE", endpoint=HOST, tags=tags)
    said = scene.ask(request_type, physical=ARN if request_type == "Update" else "")
    assert said.Data["ActiveAfterS"] == tags.get("stepbench:active-after-s", "")


def test_another_region_is_another_cluster(scene: Scene) -> None:
    """CloudFormation then deletes the old one, since its name has changed."""
    scene.created()
    scene.status(THERE, "ACTIVE")
    scene.status(THERE, "ACTIVE", endpoint=HOST)
    scene.tagged("8.2")
    assert scene.ask("Update", physical=ARN.replace(THERE, "eu-west-1")).PhysicalResourceId == ARN


def test_a_cluster_that_does_not_become_as_it_should_can_be_deleted(scene: Scene) -> None:
    """Without its name CloudFormation would leave it behind, and a cluster for ever."""
    scene.created()
    scene.stubs[THERE].add_client_error("get_cluster", "AccessDeniedException", "not for you")
    said = scene.ask("Create")
    assert (said.Status, said.PhysicalResourceId) == ("FAILED", ARN)
    assert "AccessDeniedException" in said.Reason


def test_what_was_never_made_is_said_so_and_deleted_without_asking(scene: Scene) -> None:
    """A stack that rolls back deletes what has failed, by the name that it was given."""
    scene.stubs[THERE].add_client_error("create_cluster", "ServiceQuotaExceededException", "20 clusters")
    said = scene.ask("Create")
    assert (said.Status, said.PhysicalResourceId) == ("FAILED", "none")
    assert "20 clusters" in said.Reason
    assert scene.ask("Delete", physical=said.PhysicalResourceId).Status == "SUCCESS"


@pytest.mark.parametrize("gone", [True, False])
def test_deletion_asks_once_and_waits_for_nobody(*, gone: bool) -> None:
    """The first of two peers is not gone before the second, which CloudFormation deletes after it."""
    scene = Scene()
    if gone:
        scene.stubs[THERE].add_client_error("delete_cluster", "ResourceNotFoundException", "gone")
    else:
        answer = {"identifier": ID, "arn": ARN, "status": "PENDING_DELETE", "creationTime": CREATED}
        scene.stubs[THERE].add_response("delete_cluster", answer, {"identifier": ID})
    assert scene.ask("Delete", PAIR, ARN).Status == "SUCCESS"


def test_a_deletion_that_is_refused_is_no_success(scene: Scene) -> None:
    """The cluster would stay, and nobody would know."""
    scene.stubs[THERE].add_client_error("delete_cluster", "ConflictException", "busy")
    said = scene.ask("Delete", physical=ARN)
    assert (said.Status, said.PhysicalResourceId) == ("FAILED", ARN)


def test_a_role_goes_with_its_cluster(scene: Scene) -> None:
    """Deleting it logs in to nothing: the cluster may be gone by then."""
    said = scene.ask(
        "Delete", {"Kind": "role", "Endpoint": HOST, "IamRoles": [], "WriterRoles": ["arn:aws:iam::0:role/writer"]}, "x"
    )
    assert (said.Status, said.PhysicalResourceId) == ("SUCCESS", f"{HOST}/role")


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"Kind": "colour"}, "ValidationError"),
        ({"Kind": "role", "Endpoint": "", "IamRoles": [], "WriterRoles": []}, "ValidationError"),
    ],
)
def test_whatever_fails_is_answered(properties: dict[str, Any], reason: str, scene: Scene) -> None:
    """CloudFormation would otherwise wait for 20 minutes, and as long again to undo it."""
    said = scene.ask("Create", properties)
    assert (said.Status, said.Reason.partition(":")[0], said.PhysicalResourceId) == ("FAILED", reason, "none")
    assert [body["Status"] for _, body in scene.heard] == ["FAILED"]


def test_what_nobody_foresaw_is_answered_too() -> None:
    """Here: a region of which boto3 knows nothing."""
    said = Scene().ask("Create", {"Region": "nowhere-1"})
    assert (said.Status, said.Reason, said.PhysicalResourceId) == ("FAILED", "KeyError: 'nowhere-1'", "none")


@pytest.mark.parametrize(("arn", "region"), [(ARN, THERE), ("none", ""), ("arn:aws:s3:::bucket", ""), ("", "")])
def test_only_a_clusters_arn_names_a_region(arn: str, region: str) -> None:
    """The cluster that the name says is deleted."""
    assert region_of_arn(arn) == region


@pytest.mark.parametrize("sample", ["tasks/bootstrap_dsql.json", "sources/bootstrap_dsql.role.json"])
@pytest.mark.parametrize("request_type", ["Create", "Update", "Delete"])
def test_the_sample_events_do_nothing_whoever_sends_them(sample: str, request_type: str) -> None:
    """`sam local invoke` uses the credentials at hand: a cluster that no stack knows would cost money for good."""
    event = json.loads((ROOT / "events" / sample).read_text()) | {"RequestType": request_type}

    def refuse(*_: object) -> Any:  # noqa: ANN401 -- stands for clients and answers alike
        pytest.fail("a sample event must not get that far")

    services = MemoryServices(FakeClock()).services
    task = BootstrapDsqlInput.model_validate(event | {"PhysicalResourceId": ARN})
    said = bootstrap_dsql(task, services, client_of=refuse, answer=refuse)
    assert (said.Status, "nothing was done" in said.Reason) == ("FAILED", True)
