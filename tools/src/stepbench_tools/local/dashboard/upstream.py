"""Requests to a stack's HTTP API, signed with the caller's credentials."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from urllib.request import getproxies

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from stepbench.wire.http1.boto import WholeSession
from stepbench_tools.local.stack import API_URL, StackError, emulator_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench_tools.local.stack import Stack


TIMEOUT_S = 35
"""The API itself ends after 30 s."""
CONNECTIONS = 16


class Answer(NamedTuple):
    """What the API has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Upstream:
    """The API of one stack. On an emulator it is at the emulator's address, under the name of its own."""

    def __init__(self, stack: Stack) -> None:
        self.url = stack.outputs.get(API_URL, "")
        if not self.url:
            message = f"stack {stack.name!r} has no output {API_URL}: deploy a version that has an HTTP API"
            raise StackError(message)
        self._session = emulator_session() if stack.endpoint else boto3.session.Session()
        endpoint = stack.endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
        self._base = (endpoint or self.url).rstrip("/")
        self._host = _emulated_host(self.url, endpoint) if endpoint else urlsplit(self.url).netloc
        # An emulator is on loopback, which no proxy of the user's reaches.
        proxies: dict[str, str] = {} if endpoint else getproxies()
        session = URLLib3Session(timeout=TIMEOUT_S, max_pool_connections=CONNECTIONS, proxies=proxies)
        self._http = WholeSession(session, TIMEOUT_S)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """
        Send a request.

        Raises:
            botocore.exceptions.BotoCoreError: nobody answers.
            StackError: there are no credentials to sign with.
        """
        credentials = self._session.get_credentials()
        if credentials is None:
            message = (
                "there are no AWS credentials to sign requests with; `aws configure` or `aws sso login` gives some"
            )
            raise StackError(message)
        parts = urlsplit(target)
        # A form's "+" for a space is one in no signature: both sides count what is spelt out.
        query = urlencode(parse_qsl(parts.query, keep_blank_values=True), quote_via=quote)
        url = f"{self._base}{parts.path}{f'?{query}' if query else ''}"
        request = AWSRequest(method=method, url=url, data=body, headers={**headers, "Host": self._host})
        region = self._session.region_name or "us-east-1"
        SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(request)
        answer = self._http.send(request.prepare())
        return Answer(answer.status_code, answer.headers, answer.content)

    def check(self) -> None:
        """
        Ask for the first page.

        Raises:
            StackError: the API takes tokens, or does not know the caller's credentials.
        """
        status = self.send("GET", "/dashboard", {}, b"").status
        if status == 401:  # noqa: PLR2004 -- HTTP's
            message = f"this stack's API takes tokens (ApiAuthorization=jwt): open {self.url} in a browser"
            raise StackError(message)
        if status == 403:  # noqa: PLR2004 -- HTTP's
            message = f"{self.url} refuses your credentials, which need the right execute-api:Invoke on it"
            raise StackError(message)


def _emulated_host(url: str, endpoint: str) -> str:
    """Return the name under which emulators tell their APIs apart."""
    port = urlsplit(endpoint).port
    return f"{urlsplit(url).netloc.partition('.')[0]}.execute-api.localhost{f':{port}' if port else ''}"
