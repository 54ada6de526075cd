"""Who calls, and for which team: from the request's authorisation, which API Gateway has checked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from stepbench.api.problems import ApiError, ErrorKind
from stepbench.contracts.runs import DEFAULT_TEAM, TeamName
from stepbench.observability import logger
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.runs import RunRecord
    from stepbench.settings import Settings

_ASSUMED = re.compile(r"arn:[\w-]+:sts::(?P<account>\d+):assumed-(?P<kind>role)/(?P<name>[^/]+)/.*")
_ENTITY = re.compile(
    r"arn:[\w-]+:(?:iam|sts)::(?P<account>\d+):(?P<kind>role|user|federated-user)/(?:.*/)?(?P<name>[^/]+)"
)
_ROOT = re.compile(r"arn:[\w-]+:iam::\d+:root")
_TEAM: TypeAdapter[str] = TypeAdapter(TeamName)
_OWN = ("role/", "user/", "federated-user/")
"""So begin the teams of those that are given none."""


class Caller(NamedTuple):
    """The caller has an ARN, or a JWT's subject, and belongs to a team."""

    identity: str
    team: str

    @property
    def teams(self) -> frozenset[str]:
        """Return the teams whose runs, and what they have added to datasets, are the caller's to see."""
        return frozenset({self.team, DEFAULT_TEAM})

    def may_read(self, run: RunRecord) -> bool:
        """Return whether a run is the caller's to see: its team's, or one that nobody has asked for by name."""
        return run.team in self.teams

    def may_change(self, run: RunRecord) -> bool:
        """Return whether a run is the caller's to stop, or to acknowledge."""
        return run.team == self.team


def caller_of(event: Mapping[str, Any], settings: Settings) -> Caller | None:
    """
    Return who sent a request of API Gateway's format 2.0; None where it carries no authorisation.

    By IAM, the team is what the map `teams` has for the role's ARN, else `role/` or `user/` and its name, which no team
    of the map has; the account itself is the default team. By JWT, it is the claim that the stack's parameter names.

    Raises:
        ApiError: what is to be the team's name is none, so that nobody falls into another's team by the spelling.
    """
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    if "jwt" in authorizer:
        claims = authorizer["jwt"].get("claims") or {}
        team = claims.get(settings.team_claim)
        source = f"the token's claim {settings.team_claim}"
        return Caller(str(claims.get("sub", "")), _given(str(team), source)) if team else None
    arn = str((authorizer.get("iam") or {}).get("userArn") or "")
    return Caller(arn, _team_of(arn, settings)) if arn else None


def require_caller(event: Mapping[str, Any], settings: Settings) -> Caller:
    """Return who sent a request, of which the log's lines then name the team; raises ApiError where nobody is named."""
    caller = caller_of(event, settings)
    if caller is None:
        message = f"the request is neither signed nor has it a token with the claim {settings.team_claim}"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    logger.append_keys(team=caller.team)
    return caller


def _team_of(arn: str, settings: Settings) -> str:
    """Return the team of an IAM identity; an assumed role's ARN has lost the role's path, so roles go by name."""
    if _ROOT.fullmatch(arn):
        return DEFAULT_TEAM
    found = _ASSUMED.fullmatch(arn) or _ENTITY.fullmatch(arn)
    if found is None:
        message = f"{arn} is neither a role, nor a user, nor the account itself"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    for known, team in json.loads(settings.teams or "{}").items():
        role = _ENTITY.fullmatch(known)
        if role and role.group("account", "kind", "name") == found.group("account", "kind", "name"):
            return _given(str(team), f"the parameter Teams, for {known},")
    return _named(f"{found['kind']}/{found['name']}", arn)


def _given(team: str, source: str) -> str:
    """Return the name of a team that is given to somebody; raise ApiError where it is none that can be given."""
    if team == DEFAULT_TEAM or team.startswith(_OWN):
        message = f"{source} has {shown(team)}, which is the account's own, or a role's or user's without a team"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    return _named(team, source)


def _named(team: str, source: str) -> str:
    try:
        return _TEAM.validate_python(team)
    except ValidationError as error:
        message = f"{source} has {shown(team)}, which is no team's name: {error.errors()[0]['msg']}"
        raise ApiError(ErrorKind.NOT_SIGNED, message) from error
