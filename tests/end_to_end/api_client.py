"""The deployed HTTP API as another team calls it: signed requests through the emulator's gateway."""

from __future__ import annotations

import hashlib
import http.client
import json
import urllib.request
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from stepbench_tools.local.stack import API_URL, REGION

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

LIMIT_S = 60


class Answer(NamedTuple):
    """What the API answered; the body is bytes where it is no JSON."""

    status: int
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class ApiClient:
    """It signs as the account itself, unless other credentials are given; with None, it signs nothing."""

    deployment: Deployment
    credentials: Credentials | None = Credentials("test", "test")  # noqa: RUF009 -- never changed

    @cached_property
    def _host(self) -> str:
        """Return the API's host; a stack is found anew each time that it is asked for, which takes a while."""
        return urlsplit(self.deployment.stack.outputs[API_URL]).netloc

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """Send a request, and follow no redirection."""
        emulator, host = urlsplit(self.deployment.endpoint("emulator")), self._host
        data = None if body is None else json.dumps(body)
        request = AWSRequest(method, f"http://{host}{path}", headers or {}, data)
        if self.credentials is not None:
            SigV4Auth(self.credentials, "execute-api", REGION).add_auth(request)
        connection = http.client.HTTPConnection(str(emulator.hostname), emulator.port, timeout=LIMIT_S)
        try:
            connection.request(method, path, data, {**dict(request.headers.items()), "Host": host})
            found = connection.getresponse()
            text = found.read()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, json.loads(text) if "json" in told.get("content-type", "") else text, told)
        finally:
            connection.close()

    def upload(self, rows: bytes) -> str:
        """Upload JSON Lines as docs/api.md says, and return the key that a plan names."""
        asked = {"format": "jsonl", "size_bytes": len(rows), "sha256": hashlib.sha256(rows).hexdigest()}
        place = self.call("POST", "/values", asked).body
        request = urllib.request.Request(place["url"], rows, place["headers"], method="PUT")  # noqa: S310 -- S3's
        urllib.request.urlopen(request, timeout=LIMIT_S).close()  # noqa: S310 -- likewise
        return str(place["key"])
