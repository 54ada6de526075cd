"""
The load host: takes `RunWriter`'s items from the queue, runs each as a process, and answers the state machine.

Processes have the variables of the function RunWriter, so that they do what its sandboxes would, to the same stores;
LOAD_HOST names the machine. A message is deleted before its item is run: one that is delivered again was
never run. An item that the state machine has given up meanwhile, it has given to somebody else: it is left out.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import platform
import signal
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.tasks import RunWriterInput
from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage import layout
from stepbench.services import connect, stage_handler
from stepbench.stages.run_writer import run_writer
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable


BEAT_S = 5.0
"""A quarter of RunWriterOnHost's HeartbeatSeconds."""
RECEIVE_S, MOST_MESSAGES = 5, 10
END_S = 10
"""How long a process that has answered may take to end."""
CRASHED, TIMED_OUT = "Runtime.ExitError", "Sandbox.Timedout"
"""Lambda's names for the ends of a sandbox."""
MESSAGE_CHARS = 2_700
"""SendTaskFailure takes a cause of 32,768; in JSON a character has up to 12."""
PROCESSES = multiprocessing.get_context("forkserver")
"""Forked from a process that has only imported: a hundred that import for themselves would take all of their lead."""
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """
    The place of a load host: where its work comes from, and what it is.

    function: RunWriter's name or ARN, whose variables and time-out are taken. machine: what the report calls it.
    """

    queue_url: str
    function: str
    at_once: int
    machine: str


@dataclass
class LoadHost:
    """
    The load host takes no more items than it has processes free.

    aws: returns a boto3 client by service name, which threads share. environ: of this process; an item's builds on it.
    """

    place: Place
    aws: Callable[[str], Any]
    environ: Mapping[str, str]
    stopping: threading.Event = field(default_factory=threading.Event)
    _name: str = field(init=False)
    _variables: dict[str, str] = field(init=False)
    _limit_s: float = field(init=False)
    _children: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._name = f"{self.place.machine} {uuid.uuid4().hex[:8]}"
        self._read_function()

    def serve(self) -> None:
        """Take items until `stopping` is set, then none, and return when those that run have ended."""
        free = threading.Semaphore(self.place.at_once)
        beating = threading.Thread(target=self._beat_until_stopping)
        beating.start()
        with ThreadPoolExecutor(self.place.at_once) as pool:
            while not self.stopping.is_set():
                taken = _take(free)
                bodies = self._receive(taken)
                for body in bodies:
                    pool.submit(self._run, body).add_done_callback(lambda _: free.release())
                if taken > len(bodies):
                    free.release(taken - len(bodies))
        beating.join()

    def _receive(self, most: int) -> list[str]:
        sqs, url = self.aws("sqs"), self.place.queue_url
        bodies: list[str] = []
        if not most:
            self.stopping.wait(1)
            return bodies
        try:
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, WaitTimeSeconds=RECEIVE_S)
            for message in answer.get("Messages", ()):
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                bodies.append(message["Body"])
        except (BotoCoreError, ClientError) as error:
            LOG.warning("the queue does not answer: %s", error)
            self.stopping.wait(1)
        return bodies

    def _run(self, body: str) -> None:
        message = json.loads(body)
        token, task = message["token"], message["task"]
        if not self._send("heartbeat", token):
            return
        try:
            answer = self._answer(task, token)
        except Exception as error:  # no process, no memory: the state machine need not wait to hear of it
            LOG.exception("an item was not run")
            answer = {"errorType": CRASHED, "errorMessage": f"the load host could not run it: {error}"}
        if "output" in answer:
            self._send("success", token, output=json.dumps(answer["output"]))
        else:
            cause = {**answer, "errorMessage": answer["errorMessage"][:MESSAGE_CHARS]}
            self._send("failure", token, error=answer["errorType"], cause=json.dumps(cause))

    def _answer(self, task: dict[str, Any], token: str) -> dict[str, Any]:
        """Run an item, with signs of life, and return what it says, or how it ended."""
        environ = {**self.environ, **self._variables, "LOAD_HOST": self.place.machine}
        deadline = time.monotonic() + self._limit_s
        ours, its = PROCESSES.Pipe()
        with ours:
            process = PROCESSES.Process(target=run_item, args=(task, environ, its))
            with self._children:
                process.start()
            its.close()
            while not (ready := wait([ours, process.sentinel], BEAT_S)) and time.monotonic() < deadline:
                self._send("heartbeat", token)
            answer = _received(ours)
            if not wait([process.sentinel], END_S if ready else 0):
                process.kill()
                wait([process.sentinel], END_S)
            with self._children:  # a start elsewhere reads the exit codes of all, and who comes second reads 255
                process.join(1)
        if not ready:
            return {"errorType": TIMED_OUT, "errorMessage": f"stopped after {self._limit_s:g} s"}
        crash = f"the writer's process ended with exit code {process.exitcode}"
        return answer or {"errorType": CRASHED, "errorMessage": crash}

    def _send(self, what: str, token: str, **fields: str) -> bool:
        """Notify the state machine; return whether it still waits for this item."""
        try:
            getattr(self.aws("stepfunctions"), f"send_task_{what}")(taskToken=token, **fields)
        except ClientError as error:
            LOG.warning("no %s: %s", what, error)
            return False
        except BotoCoreError as error:
            LOG.warning("no %s: %s", what, error)
        return True

    def _beat_until_stopping(self) -> None:
        while not self.stopping.is_set():
            self._beat()
            self.stopping.wait(BEAT_S)
        self._beat(ends=True)

    def _beat(self, *, ends: bool = False) -> None:
        """Say in the results table that this host takes items, and see what the stack has changed."""
        try:
            self._read_function()
            table = connect({**self.environ, **self._variables}).table
            table.beat(layout.LOAD_HOSTS, self._name, {}, ended=ends, at_once=self.place.at_once)
            _notify_systemd(self.environ.get("NOTIFY_SOCKET"))
        except (BotoCoreError, ClientError, RecordsUnavailableError, OSError) as error:
            LOG.warning("no sign of life: %s", error)

    def _read_function(self) -> None:
        found = self.aws("lambda").get_function_configuration(FunctionName=self.place.function)
        self._variables, self._limit_s = dict(found["Environment"]["Variables"]), float(found["Timeout"])


def run_load_host(place: Place) -> None:
    """
    Serve as a load host until a signal asks to stop; running items end first, unless a second signal comes.

    Raises:
        botocore.exceptions.ClientError: there is no such function, or the right to read its variables is missing.
    """
    logging.basicConfig(format="%(asctime)s %(message)s")
    LOG.setLevel(logging.INFO)
    session = boto3.session.Session()
    config = Config(connect_timeout=5, read_timeout=30, max_pool_connections=64, retries={"mode": "standard"})
    clients = {name: bounded_client(session.client(name, config=config)) for name in ("sqs", "stepfunctions", "lambda")}
    machine = f"{place.machine}, {os.cpu_count()} cores, {platform.machine()}"
    host = LoadHost(replace(place, machine=machine), clients.__getitem__, os.environ)

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        host.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    PROCESSES.set_forkserver_preload([run_item.__module__])
    forkserver.ensure_running()
    LOG.info("taking up to %d writers at once, as %s", place.at_once, machine)
    host.serve()


def _take(free: threading.Semaphore) -> int:
    """Take as many places as are free, as far as one request for messages can fill them."""
    taken = 0
    while taken < MOST_MESSAGES and free.acquire(blocking=False):
        taken += 1
    return taken


def _notify_systemd(address: str | None) -> None:
    """Tell systemd that the host takes items, where that has started it as a unit that says so: sd_notify(3)."""
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(b"READY=1", address.replace("@", "\0", 1))


def _received(pipe: Connection) -> dict[str, Any] | None:
    """Return what an item has said, if it has."""
    try:
        answer: dict[str, Any] | None = pipe.recv() if pipe.poll() else None
    except EOFError:
        return None
    return answer


def run_item(task: dict[str, Any], environ: Mapping[str, str], host: Connection) -> None:
    """
    Run one attempt at one slice in a process of its own, forked from one that has imported all this.

    It sends the host the stage's output, or `errorType` and `errorMessage`, as Lambda names them, and ends with its
    host: nobody else would notify the state machine, which starts the item anew.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's, which lets items end
    os.environ.clear()
    os.environ.update(environ)
    threading.Thread(target=_end_with, args=(host,), daemon=True).start()
    host.send(_answer(task))


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"output": stage_handler(run_writer, RunWriterInput)(task, None)}
    except Exception as error:  # noqa: BLE001 -- the state machine gets any error, as from Lambda
        return {"errorType": type(error).__name__, "errorMessage": str(error)}


def _end_with(host: Connection) -> None:
    try:
        host.recv()  # it sends nothing
    except EOFError:
        os.kill(os.getpid(), signal.SIGKILL)
