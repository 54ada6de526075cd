"""
`python -m stepbench_tools.local.stores.cassandra DIRECTORY [--fast]`: a node until Ctrl-C, released or fast to start.

Its address and its control's are on standard output, a line each, and in the directory's `serving.json`. Whatever
signal stops it, and whenever, no Java is left behind; where Java ends by itself, it ends, too.

Its control is what AWS Systems Manager is to a host: a server on loopback through which the node's operator reaches
it. `GET /` says what runs, `POST /nodetool` asks Cassandra's own tool, `POST /restart` writes settings into
cassandra.yaml and starts the node anew. Only what tuning needs is done. One request at a time: none would make sense
while the node is away.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil

from stepbench.contracts.tuning import COMMANDS, NODE_SETTINGS
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.processes import LOOPBACK, terminate
from stepbench_tools.local.stores.cassandra.configuration import FAST, as_released, find_installation, jars_of
from stepbench_tools.local.stores.cassandra.node import SERVING, Node
from stepbench_tools.local.streams import interruptible, shielded

POLL_S = 0.5
_LIMIT_BYTES = 65_536
_REQUEST_S = 10.0


class RefusedError(Exception):
    """It is asked for something that tuning does not need."""


class Control(HTTPServer):
    """Serves one node's operator; `timeout` bounds how long it waits for a request before it looks at the node."""

    timeout = POLL_S

    def __init__(self, node: Node) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.node = node

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://{LOOPBACK}:{self.server_address[1]}"

    def serve(self) -> None:
        """Answer until the node has ended by itself; an interrupt ends it anywhere."""
        while self.node.runs():
            self.handle_request()

    def answer(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        """
        Return the answer to a request.

        Raises:
            RefusedError: as named.
            LocalEnvironmentError: it was done, and failed.
        """
        match path:
            case "/":
                return {"version": self.node.version, "endpoint": self.node.endpoint, "settings": self.node.settings}
            case "/nodetool":
                arguments = [str(argument) for argument in asked.get("arguments", [])]
                if not arguments or arguments[0] not in COMMANDS:
                    message = f"{arguments}: is none of {', '.join(COMMANDS)}"
                    raise RefusedError(message)
                return {"output": self.node.nodetool(*arguments)}
            case "/restart":
                settings = dict(asked.get("settings", {}))
                if unknown := sorted(settings.keys() - set(NODE_SETTINGS)):
                    message = f"{', '.join(unknown)}: not for tuning; settings are {', '.join(NODE_SETTINGS)}"
                    raise RefusedError(message)
                return {"away_s": self.node.restart(settings)}
            case _:
                message = f"there is no {path}"
                raise RefusedError(message)


class _Handler(BaseHTTPRequestHandler):
    server: Control
    timeout = _REQUEST_S

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        length = min(int(self.headers.get("Content-Length", 0)), _LIMIT_BYTES)
        try:
            asked = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            asked = None
        if isinstance(asked, dict):
            self._reply(asked)
        else:
            self._send(HTTPStatus.BAD_REQUEST, {"error": "no JSON object"})

    def _reply(self, asked: dict[str, Any]) -> None:
        try:
            self._send(HTTPStatus.OK, self.server.answer(self.path, asked))
        except RefusedError as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except (LocalEnvironmentError, OSError, subprocess.SubprocessError) as error:
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": str(error)})

    def _send(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        pass  # the log is Cassandra's


def main(arguments: list[str]) -> int:
    """Run the program; return 0 after a stop that came when it served, else 1."""
    parser = argparse.ArgumentParser(prog="python -m stepbench_tools.local.stores.cassandra")
    parser.add_argument("directory", type=Path, help="of data and log; made if need be")
    parser.add_argument("--fast", action="store_true", help="start in half the time, with settings for tests only")
    options = parser.parse_args(arguments)
    strangers = {each.pid for each in psutil.Process().children()}
    serves = False
    try:
        with interruptible():
            node = _start(options.directory.resolve(), fast=options.fast)
            with Control(node) as control:
                sys.stdout.write(f"{node.endpoint}\n{control.url}\n")
                sys.stdout.flush()
                serving = {"endpoint": node.endpoint, "control": control.url, "version": node.version}
                (node.directory / SERVING).write_text(json.dumps(serving))
                serves = True
                control.serve()
                sys.stderr.write("Cassandra has ended\n")
                return 1
    except KeyboardInterrupt:
        if not serves:
            sys.stderr.write("asked to stop before Cassandra was up\n")
            return 1
    except (LocalEnvironmentError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        # By parentage: an interrupt may have come before anybody had the pid.
        with shielded():
            terminate([each.pid for each in psutil.Process().children() if each.pid not in strangers])
    return 0


def _start(directory: Path, *, fast: bool) -> Node:
    installation = find_installation(jars_of(find_paths(os.environ, Path.cwd())))
    available_mib = psutil.virtual_memory().available // 2**20
    node = Node(directory, installation, FAST if fast else as_released(available_mib))
    node.start({})
    return node


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
