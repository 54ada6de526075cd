"""Lines that the measuring layer puts into the results table, in Python and Node.js: signed, whole, or else printed."""

from __future__ import annotations

import json
import ssl
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.samples.records import REF, dynamodb_record
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer
from tests.support.sandboxes import call, layer, new_sandbox, start

from stepbench.contracts.identity import EventId
from stepbench.costs.estimate import LINES_ENTRY_BYTES, LINES_ITEM_BYTES, PRINTED_BYTES
from stepbench.records.formats.function_lines import merge_lines
from stepbench.records.storage import layout
from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from stepbench.records.formats.function_lines import Invocation
    from stepbench_tools.local.emulator.localstack.sandboxes import Sandbox
    from stepbench_tools.local.stores.certificates import Certificates

CREDENTIALS = Credentials("AKIDEXAMPLE", "secret/of+a=role", "token==")
PYTHON = """
def handler(event, context):
    if event == "raise": raise KeyError(event)
    return "answer"
"""
NODE = """
exports.handler = async (event) => { if (event === 'raise') throw new RangeError(event); return 'answer'; };
exports.calling = (event, context, callback) => { setTimeout(() => callback(null, 'answer'), 1); };
exports.twice = (event, context, callback) => { callback(null, 'answer'); callback(null, 'other'); };
exports.both = async (event, context, callback) => { callback(null, 'answer'); return 'other'; };
exports.answering = (event, context, callback) => { callback(null, 'answer'); throw new RangeError(event); };
exports.throwing = (event, context, callback) => { throw new RangeError(event); };
exports.silent = () => { setTimeout(() => {}, 1); };
exports.returning = () => 'answer';
"""
SOURCES = {"python3.11": {"module.py": PYTHON}, "nodejs20.x": {"module.js": NODE}}
EVENT = EventId(REF.tag, 1, 2, 0, 0, 7)


class Table(ThreadingHTTPServer):
    """
    Stands for DynamoDB, and keeps what was put.

    mood: what it does with a request: "takes", "refuses" (as without the right), "hangs", "closes" the connection,
    "dawdles" (says late that it takes it, and never the rest).
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood = "takes"
        self.scheme = "http"
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.over = Event()

    @property
    def place(self) -> str:
        """Return what the layer is given."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/results"

    def encrypt(self, certificates: Certificates) -> None:
        """Speak TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self.socket, self.scheme = context.wrap_socket(self.socket, server_side=True), "https"

    @property
    def items(self) -> list[dict[str, str]]:
        """Return the items that were put, each attribute without its type."""
        bodies = [json.loads(body) for _, body in self.requests]
        assert all(body["TableName"] == "results" for body in bodies)
        return [{name: next(iter(value.values())) for name, value in body["Item"].items()} for body in bodies]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Table

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        table = self.server
        if table.mood == "hangs":
            table.over.wait(20)
        if table.mood in {"hangs", "closes"}:
            table.mood = "takes"
            self.close_connection = True
            return
        if table.mood == "dawdles":
            table.over.wait(1.2)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
            table.over.wait(20)
            return
        table.connections.add(self.client_address)
        if table.mood == "takes":
            table.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
        answer = b"{}" if table.mood == "takes" else b'{"__type": "com.amazon.coral.service#AccessDeniedException"}'
        self.send_response(200 if table.mood == "takes" else 400)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def table() -> Iterator[Table]:
    """Serve a table."""
    with Table() as table:
        Thread(target=table.serve_forever, daemon=True).start()
        yield table
        table.over.set()
        table.shutdown()


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Build the layer once."""
    return pack_layer(build_layer(tmp_path_factory.mktemp("layer") / "built"))


@pytest.fixture
def measured(archive: bytes, tmp_path: Path, table: Table) -> Callable[..., Any]:
    """Return what starts a sandbox of a function whose trial asks for the table."""
    numbers = count()

    @contextmanager
    def opened(
        runtime: str,
        handler: str = "module.handler",
        variables: Mapping[str, str] = MappingProxyType({}),
        **config: Any,  # noqa: ANN401 -- a function's
    ) -> Iterator[Sandbox]:
        layers = [layer(archive)]
        sources = SOURCES["nodejs20.x" if runtime.startswith("nodejs") else runtime]
        folder = tmp_path / f"code-{next(numbers)}"
        sandbox = new_sandbox(folder, sources, tmp_path / "layers", runtime=runtime, layers=layers, **config)
        yield start(
            sandbox,
            _HANDLER=handler,
            AWS_LAMBDA_EXEC_WRAPPER="/opt/stepbench-measure",
            AWS_ACCESS_KEY_ID=CREDENTIALS.access_key,
            AWS_SECRET_ACCESS_KEY=CREDENTIALS.secret_key,
            AWS_SESSION_TOKEN=CREDENTIALS.token,
            STEPBENCH_TRIAL=REF.tag,
            STEPBENCH_IDENTITY="value",
            STEPBENCH_RESULTS_TABLE=table.place,
            **variables,
        )
        sandbox.stop()

    return opened


def names(result: Any) -> list[str]:  # noqa: ANN401 -- LocalStack's result
    """Return the names of the lines that an invocation has printed."""
    return [name for name, _ in measured_lines(result.logs.splitlines())]


def invocations(table: Table) -> list[Invocation]:
    """Return what the items say, as the intake reads them."""
    found: dict[str, Invocation] = {}
    lines = [line for item in table.items for line in item["lines"].removesuffix("\n").split("\n")]
    assert len([*merge_lines(REF.tag, found, lines)]) == len(lines)
    return [*found.values()]


@pytest.mark.parametrize("runtime", SOURCES)
def test_lines_are_put_as_they_would_be_printed_once_the_handler_has_ended(
    measured: Callable[..., Any], table: Table, runtime: str
) -> None:
    """The first is printed too: one that dies has it. Keys are where the stack looks, sizes what its estimates take."""
    with measured(runtime) as sandbox:
        event = {"Records": [dynamodb_record(EVENT, sequence="5" * 21, at_s=1)]}
        answers = [call(sandbox, event if each != "raise" else each, each) for each in ("r-1", "r-2", "raise")]
    assert [names(result) for result, _ in answers] == [["stepbench.t4"]] * 3
    assert [answers[0][1], answers[1][1]] == ["answer", "answer"]
    assert answers[2][1]["errorType"] in {"KeyError", "RangeError"}
    first, second, third = invocations(table)
    assert first.whole
    assert second.whole
    assert first.records[0][4] == "5" * 21
    assert third.end is not None
    assert third.end.error == answers[2][1]["errorType"]
    for item, one in zip(table.items, (first, second, third), strict=True):
        assert one.end is not None
        assert item["sk"] == layout.lines_sk(one.end.t5, one.end.request, 0)
        assert item["pk"] in {layout.lines_pk(REF.tag, shard) for shard in range(layout.T4_SHARDS)}
        assert int(item["expires_at"]) == one.end.t5 // 10**9 + 86_400
        size = sum(len(name) + len(value) for name, value in item.items())
        assert size <= LINES_ITEM_BYTES + LINES_ENTRY_BYTES * len(one.records)
        printed = sum(len(line) + 26 for line in item["lines"].splitlines(keepends=True))
        assert printed <= PRINTED_BYTES["log"] + LINES_ENTRY_BYTES * len(one.records)
    assert len(table.connections) == 1


@pytest.mark.parametrize("runtime", SOURCES)
def test_requests_are_signed_as_botocore_signs_them(measured: Callable[..., Any], table: Table, runtime: str) -> None:
    """AWS refuses what differs in one byte, and no emulator looks."""
    with measured(runtime) as sandbox:
        call(sandbox, {})
    ((headers, body),) = table.requests
    signed = [name for name in headers if name.startswith("x-amz-") or name in {"content-type", "host"}]
    request = AWSRequest("POST", f"http://{headers['host']}/", {name: headers[name] for name in signed}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(CREDENTIALS, "dynamodb", "us-east-1")
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    listed = signer.signed_headers(signer.headers_to_sign(request))
    assert headers["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={listed}, Signature={signature}"
    )
    assert headers["x-amz-target"] == "DynamoDB_20120810.PutItem"
    assert headers["x-amz-security-token"] == CREDENTIALS.token


@pytest.mark.parametrize("runtime", SOURCES)
def test_a_table_is_spoken_to_by_tls_and_has_to_show_who_it_is(
    measured: Callable[..., Any], table: Table, tmp_path: Path, runtime: str
) -> None:
    """As AWS's: requests have the keys of the function's role."""
    certificates = make_certificates(tmp_path / "certificates")
    table.encrypt(certificates)
    trust = dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(certificates.authority))
    with measured(runtime, variables=trust) as sandbox:
        results = [call(sandbox, {})[0] for _ in range(2)]
    assert [names(result) for result in results] == [["stepbench.t4"]] * 2
    assert (len(table.requests), len(table.connections)) == (2, 1)

    with measured(runtime) as sandbox:
        result, _ = call(sandbox, {})
    assert names(result) == ["stepbench.t4", "stepbench.t5"]
    assert len(table.requests) == 2


@pytest.mark.parametrize("runtime", SOURCES)
def test_a_large_batch_goes_into_items_that_dynamodb_takes(
    measured: Callable[..., Any], table: Table, runtime: str
) -> None:
    """400 kB an item, of which there may be several."""
    records = [dynamodb_record(EVENT._replace(sequence=each), sequence="9" * 400 + str(each)) for each in range(1_500)]
    with measured(runtime) as sandbox:
        result, _ = call(sandbox, {"Records": records})
    (one,) = invocations(table)
    assert one.whole
    assert len(one.records) == 1_500
    assert [item["sk"].rpartition("#")[2] for item in table.items] == ["00", "01", "02", "03"]
    assert max(len(item["lines"]) for item in table.items) < 390_000
    assert names(result) == ["stepbench.t4"]


@pytest.mark.parametrize("runtime", SOURCES)
@pytest.mark.parametrize("mood", ["refuses", "hangs"])
def test_what_the_table_does_not_take_is_printed_and_it_is_left_alone_for_a_while(
    measured: Callable[..., Any], table: Table, runtime: str, mood: str
) -> None:
    """Nothing is lost, and a table that hangs delays one invocation a minute."""
    table.mood = mood
    with measured(runtime) as sandbox:
        answers = [call(sandbox, {}) for _ in range(2)]
    assert [(names(result), body) for result, body in answers] == [(["stepbench.t4", "stepbench.t5"], "answer")] * 2
    assert table.requests == []


@pytest.mark.parametrize("runtime", SOURCES)
@pytest.mark.parametrize("mood", ["hangs", "dawdles"])
def test_an_invocation_does_not_time_out_while_the_table_is_waited_for(
    measured: Callable[..., Any], table: Table, runtime: str, mood: str
) -> None:
    """The handler has ended: without the table, its event would be processed. The limit is that of all steps."""
    table.mood = mood
    with measured(runtime, timeout=2) as sandbox:
        result, body = call(sandbox, {})
    assert (names(result), body) == (["stepbench.t4", "stepbench.t5"], "answer")


@pytest.mark.parametrize("runtime", SOURCES)
def test_a_connection_that_was_closed_meanwhile_is_opened_anew(
    measured: Callable[..., Any], table: Table, runtime: str
) -> None:
    """Servers close what is idle, and a sandbox stands still between two invocations."""
    with measured(runtime) as sandbox:
        call(sandbox, {})
        table.mood = "closes"
        result, _ = call(sandbox, {})
    assert names(result) == ["stepbench.t4"]
    assert len(table.requests) == 2


@pytest.mark.parametrize("handler", ["module.twice", "module.both", "module.answering"])
def test_of_two_ends_the_first_stays_the_answer(measured: Callable[..., Any], table: Table, handler: str) -> None:
    """The runtime takes the first, which waits for the table."""
    with measured("nodejs20.x", handler) as sandbox:
        result, body = call(sandbox, "event")
    assert (result.is_error, body) == (False, "answer")
    assert len(table.requests) == 1


@pytest.mark.parametrize(
    ("runtime", "handler", "waits"),
    [
        ("nodejs20.x", "module.calling", True),
        ("nodejs24.x", "module.returning", True),
        ("nodejs20.x", "module.throwing", False),
        ("nodejs20.x", "module.silent", False),
    ],
)
def test_node_puts_where_something_can_wait_for_the_table(
    measured: Callable[..., Any], table: Table, runtime: str, handler: str, *, waits: bool
) -> None:
    """What is thrown at once, or ends with an empty event loop, is reported before any answer could come."""
    with measured(runtime, handler) as sandbox:
        result, body = call(sandbox, "event")
    assert body == ("answer" if waits else body)
    assert result.is_error is (handler == "module.throwing")
    assert names(result) == ["stepbench.t4", *([] if waits else ["stepbench.t5"])]
    assert len(table.requests) == waits
