"""The account that a rehearsal goes to: the user's own, or an emulator."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3

from stepbench.errors import PlanError, Problem
from stepbench_tools.local.deploy import emulator_account
from stepbench_tools.local.stack import Stack, client, emulator_session, open_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

ENDPOINT = "AWS_ENDPOINT_URL"
_AWS_SUFFIXES = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")


@dataclass(frozen=True)
class Account:
    """
    An account and region, reached with the user's own credentials, or an emulator.

    Attributes:
        number: the account's.
        region: its region.
        emulator: the name of what plays AWS; "" on AWS.
        endpoint: the emulator's; None on AWS.
        session: boto3's.
        variables: by which SAM CLI reaches the same.
    """

    number: str
    region: str
    emulator: str
    endpoint: str | None
    session: boto3.session.Session
    variables: Mapping[str, str]

    def client(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """Return a client."""
        return client(self.session, service, self.endpoint)

    def stack(self, name: str) -> Stack:
        """Return a deployed stack. Raises StackError: there is none."""
        return open_stack(name, self.session, self.endpoint)

    def artefacts(self, stack: str) -> str:
        """Return the name of the bucket that `sam deploy` uploads to: names of buckets are everybody's."""
        digest = hashlib.sha256(f"{self.number} {self.region} {stack}".encode()).hexdigest()
        return f"{stack}-artefacts-{digest[:8]}"


def find_account(emulator: str) -> Account:
    """
    Return the account of the environment's credentials, or the emulator of this name at AWS_ENDPOINT_URL.

    Raises:
        PlanError: there is no region, or a profile sends calls to what is not AWS without saying so.
        botocore.exceptions.BotoCoreError: no credentials, or nobody answers.
    """
    endpoint = os.environ.get(ENDPOINT)
    session = emulator_session() if endpoint else boto3.session.Session()
    if not (region := session.region_name):
        remedy = "Set it, or a region in your profile."
        raise PlanError([Problem("AWS_DEFAULT_REGION", "nothing", "names no region", remedy)])
    sts = client(session, "sts", endpoint)
    host = str(sts.meta.endpoint_url).partition("//")[2].partition("/")[0]
    if endpoint is None and not host.endswith(_AWS_SUFFIXES):
        message = "is no address of AWS, so that nothing seen there can be distinguished from AWS"
        raise PlanError([Problem("endpoint_url", f'"{host}"', message, f"Give an emulator's address as {ENDPOINT}.")])
    number = str(sts.get_caller_identity()["Account"])
    own = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    variables = emulator_account(endpoint) if endpoint else own | {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    name = (emulator or f"the emulator at {ENDPOINT}") if endpoint else ""
    return Account(number, region, name, endpoint, session, variables)
