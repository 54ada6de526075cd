"""What a Fargate task is told by its endpoints, and what is done where they are silent."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import pytest
from tests.samples.transfer_server import BUCKET, Exchange, Server, transfer_server

from stepbench.errors import RecordsUnavailableError
from stepbench.experiments.transfer.program import surroundings
from stepbench.experiments.transfer.program.surroundings import TaskPlace, find_task, own_address, with_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = f"/{BUCKET}/credentials"
GIVEN = {"AccessKeyId": "AKIA", "SecretAccessKey": "secret", "Token": "token", "Expiration": "2026-01-01T00:00:00Z"}


@pytest.fixture
def server() -> Iterator[Server]:
    """Stand for the task's endpoints."""
    with transfer_server() as made:
        yield made


def test_a_task_signs_with_its_roles_credentials(server: Server) -> None:
    """Fargate gives them by an endpoint, and not in the environment as Lambda does."""
    server.objects["credentials"] = json.dumps(GIVEN).encode()
    found = with_credentials({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": PATH, "AWS_REGION": "eu-west-1"}, server.url)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
    assert [found[name] for name in names] == ["AKIA", "secret", "token", "eu-west-1"]


def test_credentials_are_asked_for_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint throttles, and may be up a moment later than the task."""
    monkeypatch.setattr(surroundings, "_PAUSE_S", 0)
    answers = [(500, b""), (200, json.dumps(GIVEN).encode())]

    def answer(exchange: Exchange) -> None:
        exchange.reply(*answers.pop(0))

    server.answers["credentials"] = answer
    assert with_credentials({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": PATH}, server.url)["AWS_ACCESS_KEY_ID"] == "AKIA"


def test_without_credentials_nothing_is_begun(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose rows nobody would take measures for nothing."""
    monkeypatch.setattr(surroundings, "_PAUSE_S", 0)
    with pytest.raises(RecordsUnavailableError, match="credentials"):
        with_credentials({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": PATH}, server.url)


def test_an_environment_that_has_credentials_stays_as_it_is() -> None:
    """In Lambda, and in a process on one machine."""
    environ = {"AWS_ACCESS_KEY_ID": "mine", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": PATH}
    assert (with_credentials(environ), with_credentials({})) == (environ, {})


def test_a_task_knows_its_name_and_zone(server: Server) -> None:
    """The zone may be a mode of the distribution."""
    told = {"TaskARN": "arn:task", "AvailabilityZone": "eu-west-1b", "Containers": []}
    server.objects["v4/task"] = json.dumps(told).encode()
    assert find_task({"ECS_CONTAINER_METADATA_URI_V4": f"{server.url}/{BUCKET}/v4"}) == TaskPlace(
        "arn:task", "eu-west-1b"
    )


def test_elsewhere_there_is_no_task(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda tells no zone; an endpoint that is silent costs a row's column, not the row."""
    monkeypatch.setattr(surroundings, "_PAUSE_S", 0)
    assert find_task({}) == TaskPlace()
    assert find_task({"ECS_CONTAINER_METADATA_URI_V4": f"{server.url}/{BUCKET}/v4"}) == TaskPlace()


def test_the_own_address_is_an_address_or_nothing() -> None:
    """A machine without a route has none."""
    found = own_address()
    assert not found or ipaddress.ip_address(found)
