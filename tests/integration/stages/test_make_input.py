"""Files that plans name, fetched by HTTPS: from the address that was judged, in the name of its host, to an end."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.services import MemoryServices, stored_trial

from stepbench.contracts.dataflow.rows import MakeInputInput
from stepbench.contracts.plan import TrialPlan
from stepbench.errors import TargetUnavailableError
from stepbench.stages.make_input import make_input
from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = b"digits"
WHOLE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(FILE) + FILE
PIECE_S = 0.02
LIMIT_S = 0.5


class FileServer:
    """A server of one file, with a certificate for `localhost`. drips: after the file it never comes to an end."""

    def __init__(self, folder: Path) -> None:
        self.names: list[str | None] = []
        self.drips = False
        made = make_certificates(folder)
        self.authority = str(made.authority)
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(made.certificate, made.key)
        self._context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listener.getsockname()[1]}/digits.bin"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                plain, _ = self._listener.accept()
                with self._context.wrap_socket(plain, server_side=True) as connected:
                    self._answer(connected)
            except OSError:
                continue

    def _answer(self, connected: ssl.SSLSocket) -> None:
        connected.recv(65_536)
        connected.sendall(b"HTTP/1.1 200 OK\r\n\r\n" if self.drips else WHOLE)
        while self.drips and not self._over.wait(PIECE_S):
            connected.sendall(b" ")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server whose authority is trusted."""
    server = FileServer(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", server.authority)
    yield server
    server.close()


def fetch(source: str) -> int:
    """Have a DAG's input fetched; return its size."""
    memory = MemoryServices(allow_custom_endpoints=True)
    dag = {"name": "dag", "input": {"source": source}, "stages": [stage("a")]}
    ref = stored_trial(memory.services, TrialPlan.model_validate(dataflow_trial(dag)))
    return make_input(MakeInputInput(ref=ref, dag="dag"), memory.services).input_bytes


def test_a_file_comes_from_a_server_with_a_certificate_for_the_name_that_was_given(files: FileServer) -> None:
    """The connection goes to an address; the handshake and its verification are in the name of the host."""
    assert (fetch(files.url), files.names) == (len(FILE), ["localhost"])


def test_a_file_that_drips_ends_in_total(files: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function would be killed after 15 minutes, and tell nobody why."""
    monkeypatch.setattr("stepbench.stages.make_input.DOWNLOAD_LIMIT_S", LIMIT_S)
    files.drips = True
    with pytest.raises(TargetUnavailableError, match=f"no whole answer within {LIMIT_S:g} s"):
        fetch(files.url)


def test_a_server_of_files_is_judged_by_all_addresses_of_its_name(
    files: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a store is."""
    look_up = socket.getaddrinfo

    def with_metadata(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:  # noqa: ANN401 -- the library's
        found = [*look_up(host, port, *args, **kwargs)]
        return [*found, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(socket, "getaddrinfo", with_metadata)
    with pytest.raises(TargetUnavailableError, match="localhost is the link-local or metadata address"):
        fetch(files.url)
    assert files.names == []
