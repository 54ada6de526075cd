"""The API in process against its own description: each request that schemathesis thinks of to cover it."""

from __future__ import annotations

import io
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from requests import Session
from requests.adapters import HTTPAdapter
from schemathesis.specs.openapi.checks import negative_data_rejection
from tests.samples.api_description import CHECKS, OPERATIONS, covering
from urllib3 import HTTPResponse

if TYPE_CHECKING:
    from requests import PreparedRequest, Response
    from tests.unit.api.conftest import Api

GATEWAY = "http://api"
EACH, OF_PLANS = 6, {"POST /plans/validate": 0, "POST /runs": 3}
"""Of the more than 2,500 plans with one thing changed, either operation is sent every sixth: not the other's ones."""


class Gateway(HTTPAdapter):
    """API Gateway as far as the function sees it: requests become events."""

    def __init__(self, api: Api) -> None:
        super().__init__()
        self._api = api

    def send(self, request: PreparedRequest, *_: Any, **__: Any) -> Response:  # noqa: ANN401 -- requests' own
        """Let the function answer."""
        url, sent = urlsplit(str(request.url)), request.body
        text = sent.decode("utf-8", "replace") if isinstance(sent, bytes) else sent
        headers = {name.lower(): str(value) for name, value in request.headers.items()}
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        found = self._api.answer(str(request.method), unquote(url.path), text, query=query, headers=headers)
        body, status, told = io.BytesIO(found["body"].encode()), found["statusCode"], found["headers"]
        return self.build_response(request, HTTPResponse(body, told, status, preload_content=False))


@pytest.mark.parametrize(
    ("operation", "first", "each"),
    [
        *((operation, OF_PLANS.get(operation, 0), EACH if operation in OF_PLANS else 1) for operation in OPERATIONS),
        *(pytest.param(operation, 0, 1, marks=pytest.mark.nightly("api")) for operation in OF_PLANS),
    ],
)
def test_whatever_is_asked_is_answered_as_described(operation: str, first: int, each: int, api: Api) -> None:
    """No answer is a server's error, and what the description forbids is refused. See test_api_contract.py, too."""
    session = Session()
    session.mount(GATEWAY, Gateway(api))
    asked = 0
    for case in islice(covering(operation), first, None, each):
        answer = case.call(base_url=GATEWAY, session=session, allow_redirects=False)
        case.validate_response(answer, checks=[*CHECKS, negative_data_rejection])
        asked += 1
    assert asked > 5
