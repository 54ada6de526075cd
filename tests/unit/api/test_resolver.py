"""Whose a request is, as API Gateway tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.api.resolver import ApiError, Caller, ErrorKind, find_caller
from stepbench.settings import Settings

ACCOUNT = "000000000000"
DEPLOYER = f"arn:aws:sts::{ACCOUNT}:assumed-role/deployer/session-1"


def settings(**fields: str) -> Settings:
    """Return settings of a stack with these fields."""
    return Settings.model_validate({"results_table": "t", "results_bucket": "b", **fields})


def signed(arn: str) -> dict[str, Any]:
    """Return a request that an identity has signed."""
    return {"requestContext": {"authorizer": {"iam": {"userArn": arn}}}}


def bearing(claims: dict[str, Any]) -> dict[str, Any]:
    """Return a request with a token that API Gateway has checked."""
    return {"requestContext": {"authorizer": {"jwt": {"claims": claims}}}}


@pytest.mark.parametrize(
    ("arn", "team"),
    [
        (DEPLOYER, "role/deployer"),
        (f"arn:aws:iam::{ACCOUNT}:user/people/anna@example.org", "user/anna@example.org"),
        (f"arn:aws-cn:sts::{ACCOUNT}:assumed-role/AWSReservedSSO_x_1/anna", "role/AWSReservedSSO_x_1"),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/anna", "federated-user/anna"),
        (f"arn:aws:iam::{ACCOUNT}:root", "default"),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/default/s", "role/default"),
        (f"arn:aws:iam::{ACCOUNT}:user/a+b=c,d", "user/a+b=c,d"),
    ],
)
def test_an_identity_is_a_team_of_its_own(arn: str, team: str) -> None:
    """So nobody sees another's runs before anybody has written a map; the account itself is the default team."""
    assert find_caller(signed(arn), settings()) == Caller(arn, team)


def test_the_map_joins_roles_to_teams() -> None:
    """An assumed role's ARN has no path, the role's own has one."""
    teams = json.dumps({f"arn:aws:iam::{ACCOUNT}:role/ci/deployer": "payments"})
    found = find_caller(signed(DEPLOYER), settings(teams=teams))
    assert found is not None
    assert found.team == "payments"


def test_a_role_of_that_name_in_another_account_is_another() -> None:
    """Whoever may create a role somewhere could otherwise join any team."""
    teams = json.dumps({"arn:aws:iam::111111111111:role/deployer": "payments"}).replace("1" * 12, "9" * 12)
    found = find_caller(signed(DEPLOYER), settings(teams=teams))
    assert found is not None
    assert found.team == "role/deployer"


def test_a_user_of_a_role_s_name_is_another() -> None:
    """The map names the role."""
    teams = json.dumps({f"arn:aws:iam::{ACCOUNT}:role/deployer": "payments"})
    found = find_caller(signed(f"arn:aws:iam::{ACCOUNT}:user/deployer"), settings(teams=teams))
    assert found is not None
    assert found.team == "user/deployer"


@pytest.mark.parametrize("team", ["default", "role/deployer", "user/anna", "a b", "Zahlungen für alle", "x" * 101, "-"])
def test_a_name_that_is_nobodys_to_give_is_refused(team: str) -> None:
    """Changed until it fits it may be another team's, and the default team stops the scheduled runs."""
    teams = json.dumps({f"arn:aws:iam::{ACCOUNT}:role/ci/deployer": team})
    for event, told in ((bearing({"sub": "anna", "team": team}), "claim team"), (signed(DEPLOYER), "parameter Teams")):
        with pytest.raises(ApiError, match=told) as refused:
            find_caller(event, settings(teams=teams))
        assert refused.value.kind is ErrorKind.NOT_SIGNED


def test_a_token_names_its_team() -> None:
    """By the claim that the stack's parameter names."""
    event = bearing({"sub": "anna", "custom:group": "payments"})
    assert find_caller(event, settings(team_claim="custom:group")) == Caller("anna", "payments")


@pytest.mark.parametrize("event", [{}, {"requestContext": {}}, bearing({"sub": "anna"}), signed("")])
def test_without_an_identity_there_is_no_caller(event: dict[str, Any]) -> None:
    """A token without the claim belongs to no team, and must not fall into one."""
    assert find_caller(event, settings()) is None
