"""
ECS tasks as processes, and `ecs:runTask.sync` as AWS's Step Functions has it, in place of MiniStack's Docker.

Without Docker, MiniStack's tasks stay RUNNING for ever. Here the command of the task's only container runs as a process
of this machine: a program that is called python is the interpreter that stands for Lambda's, and the layers that the
container's variable LAYERS names are on its PYTHONPATH, as in a sandbox. The task stops with the process's exit code,
and its output goes into the container's log group.

`shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextvars
import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
LAYERS = "LAYERS"
"""A container's variable: ARNs of layers, with commas."""
STOP_TIMEOUT_S = 30.0
TASK_POLL_S = 0.1
STOPPED_BY_USER = 143
CAPACITY = "Capacity is unavailable at this time. Please try again later or in a different availability zone"
_ABORTED = "execution aborted"


@dataclass(frozen=True)
class Parts:
    """
    What tasks are made of.

    Attributes:
        ecs: the module `ministack.services.ecs`.
        credentials: `execution_credentials` of `ministack.core.lambda_runtime`.
        layer_folders: from ARNs of layers to where they were unpacked.
        module_path: of `lambda_parts`.
        base: what every sandbox's environment has.
        python: the interpreter that stands for Lambda's.
        at_once: so many tasks may run; further ones find no capacity. 0: any number.
    """

    ecs: Any
    credentials: Callable[[Json], dict[str, str]]
    layer_folders: Callable[[list[str]], list[Path]]
    module_path: Callable[[str, list[Path]], str]
    base: Json
    python: str
    at_once: int = 0
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def command(self, container: Json, override: Json) -> list[str]:
        """Return what the container runs, with our interpreter in place of the image's."""
        entry = list(container.get("entryPoint") or ())
        program, *rest = entry + list(override.get("command") or container.get("command") or ())
        return [self.python if Path(program).name.startswith("python") else program, *rest]

    def environment(self, definition: Json, container: Json, override: Json) -> dict[str, str]:
        """Return the container's variables, with the role's credentials and the modules of its layers."""
        given = {each["name"]: str(each["value"]) for each in container.get("environment") or ()}
        given |= {each["name"]: str(each["value"]) for each in override.get("environment") or ()}
        account, region = definition["taskDefinitionArn"].split(":")[4:2:-1]
        name = definition["family"]
        arn = f"arn:aws:lambda:{region}:{account}:function:{name}"
        role = {"FunctionArn": arn, "FunctionName": name, "Role": definition.get("taskRoleArn") or ""}
        path = self.module_path("", self.layer_folders([arn for arn in given.get(LAYERS, "").split(",") if arn]))
        return {
            **self.base,
            **{name: value for name, value in self.credentials(role).items() if value},
            "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"],
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            **given,
            "PYTHONPATH": path.strip(os.pathsep),
        }

    def spawn(self, task: Json, definition: Json, overrides: Json) -> subprocess.Popen[str]:
        """
        Start the process of a task, in a session of its own; by its metadata endpoint it knows which task it is.

        Raises:
            OSError: there is no such program.
        """
        (container,) = definition["containerDefinitions"]
        named = (each for each in overrides.get("containerOverrides") or () if each.get("name") == container["name"])
        override: Json = next(named, {})
        keeper = Path(__file__).parents[1] / "task_process.py"
        stop_s = str(container.get("stopTimeout") or STOP_TIMEOUT_S)
        identity = (task["taskArn"], task["clusterArn"], definition, container, task["launchType"])
        environment = self.environment(definition, container, override)
        task["_metadata_tokens"] = [self.ecs._register_metadata(*identity, environment, True, None)]  # noqa: FBT003 -- MiniStack's own
        return subprocess.Popen(  # noqa: S603 -- what the task definition says
            [self.python, "-P", str(keeper), stop_s, *self.command(container, override)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )


def run_as_processes(parts: Parts) -> None:
    """Let RunTask start processes, and StopTask end them, where the API is asked and where state machines do."""
    ecs = parts.ecs
    stock_run, stock_stop, placing = ecs._run_task, ecs._stop_task, threading.Lock()

    def run_task(data: Json) -> Any:
        with placing:
            running = sum(task["lastStatus"] != "STOPPED" for task in ecs._tasks.values())
            if parts.at_once and running >= parts.at_once:
                return ecs.json_response({"tasks": [], "failures": [{"reason": CAPACITY}]})
            answer = stock_run(data)
        if answer[0] >= 400:  # noqa: PLR2004 -- HTTP
            return answer
        answered = json.loads(answer[2])
        tasks = [ecs._tasks[each["taskArn"]] for each in answered["tasks"]]
        for task in tasks:
            task.update(lastStatus="PENDING", startedAt=None, _startup_stable=False)
        answered["tasks"] = [ecs._sanitize(task) for task in tasks]
        for task in tasks:
            context = contextvars.copy_context()  # account and region, by which MiniStack keeps tasks
            work = (parts, task, data.get("overrides") or {})
            threading.Thread(target=context.run, args=(_run, *work), daemon=True, name="task").start()
        return ecs.json_response(answered)

    def stop_task(data: Json) -> Any:
        cluster = ecs._resolve_cluster_name(data.get("cluster", "default"))
        task = ecs._resolve_task(data.get("task", ""), cluster) if cluster else None
        if task and task["lastStatus"] != "STOPPED":
            for container in task["containers"]:
                container["exitCode"] = STOPPED_BY_USER
        answer = stock_stop(data)
        if task and (process := parts.processes.get(task["taskArn"])):
            process.terminate()
        return answer

    ecs._get_docker = lambda: None
    ecs._run_task, ecs._stop_task = run_task, stop_task
    ecs._ACTION_MAP.update(RunTask=run_task, StopTask=stop_task)


def _run(parts: Parts, task: Json, overrides: Json) -> None:
    """Run a task to its end."""
    ecs, arn = parts.ecs, task["taskArn"]
    definition = ecs._task_defs[ecs._resolve_td_key(task["taskDefinitionArn"])]
    try:
        process = parts.processes[arn] = parts.spawn(task, definition, overrides)
    except (OSError, ValueError) as error:
        ecs._mark_task_stopped(arn, task, f"ResourceInitializationError: {error}", "TaskFailedToStart")
        return
    if not ecs._mark_task_running(arn, task):
        process.terminate()
    _forward(ecs, definition["containerDefinitions"][0], arn.rpartition("/")[2], process)
    code = process.wait()
    del parts.processes[arn]
    ecs._mark_task_stopped(arn, task, "Essential container exited", "EssentialContainerExited", exit_code=code)
    ecs._cleanup_task_resources(task, None)


def _forward(ecs: Any, container: Json, task_id: str, process: subprocess.Popen[str]) -> None:
    """Pass what a process says on to its log group, until it says no more."""
    config = ecs._awslogs_config(container, task_id, task_id)
    logs = config is not None and ecs._ensure_awslogs_stream(config)
    for line in process.stdout or ():
        if logs:
            ecs._emit_awslogs_event(config, line.rstrip("\n"))


def wait_for_tasks(machines: Any, ecs: Any) -> None:
    """
    Let `ecs:runTask.sync` fail as on AWS, and stop its task with the execution.

    AWS fails it where RunTask answers with failures (`AmazonECS.Unknown`), or a container's exit code is not 0
    (`States.TaskFailed`, with the task as its cause). Source: "Run Amazon ECS or Fargate tasks with Step Functions" in
    the developer guide.
    """
    execution: contextvars.ContextVar[Json | None] = contextvars.ContextVar("execution", default=None)
    stock_map, failure = machines._run_distributed_map, machines._ExecutionError

    def run_map(*arguments: Any) -> Any:
        before = execution.set(arguments[-2])  # children inherit it, whose own records MiniStack does not stop
        try:
            return stock_map(*arguments)
        finally:
            execution.reset(before)

    def run_task(resource: str, given: Any) -> Any:
        data = machines._pascal_to_camel(given)
        status, _, body = ecs._run_task(data)
        answered = json.loads(body)
        if status >= 400:  # noqa: PLR2004 -- HTTP
            name = str(answered.get("__type", "AmazonECSException")).rpartition("#")[2]
            raise failure(error=f"ECS.{name}", cause=answered.get("message", ""))
        if not resource.endswith(".sync"):
            return answered
        if answered["failures"]:
            raise failure(error="AmazonECS.Unknown", cause=json.dumps(_pascal(answered)))
        return _await(machines, ecs, answered["tasks"][0], execution.get())

    machines._run_distributed_map = run_map
    _end_when_stopped(machines, execution)
    machines._SERVICE_DISPATCH["arn:aws:states:::ecs:runTask"] = run_task


def _end_when_stopped(machines: Any, parent: contextvars.ContextVar[Json | None]) -> None:
    """Have a stopped execution's branches and children call nothing more, and itself stay ABORTED, as on AWS."""
    stock_task, stock_fail = machines._execute_task, machines._fail_execution
    stock_retrier = machines._find_matching_retrier
    executing: contextvars.ContextVar[Json | None] = contextvars.ContextVar("executing", default=None)

    def is_stopped() -> bool:
        return any(each and each["status"] != "RUNNING" for each in (executing.get(), parent.get()))

    def execute_task(state: Json, given: Any, own: Json, context: Json) -> Any:
        before = executing.set(own)
        try:
            if is_stopped():
                raise machines._ExecutionError(error="States.Runtime", cause=_ABORTED)
            return stock_task(state, given, own, context)
        finally:
            executing.reset(before)

    def find_retrier(retriers: Any, error: str, counts: Any) -> Any:
        return (None, -1) if is_stopped() else stock_retrier(retriers, error, counts)

    def fail(own: Json, error: str, cause: str) -> None:
        if own["status"] == "RUNNING":
            stock_fail(own, error, cause)

    machines._execute_task, machines._fail_execution = execute_task, fail
    machines._find_matching_retrier = find_retrier


def _await(machines: Any, ecs: Any, started: Json, execution: Json | None) -> Json:
    """Wait until a task has stopped; stop it where the execution has."""
    of = {"cluster": started["clusterArn"], "tasks": [started["taskArn"]]}
    while (task := json.loads(ecs._describe_tasks(of)[2])["tasks"][0])["lastStatus"] != "STOPPED":
        if execution is not None and execution["status"] != "RUNNING":
            ecs._stop_task({"cluster": of["cluster"], "task": started["taskArn"], "reason": _ABORTED})
        time.sleep(TASK_POLL_S)
    if any(container.get("exitCode") != 0 for container in task["containers"]):
        raise machines._ExecutionError(error="States.TaskFailed", cause=json.dumps(_pascal(task)))
    result: Json = _pascal(task)
    return result


def _pascal(node: Any) -> Any:
    """Return an answer of ECS with the names that it has in Step Functions."""
    if isinstance(node, dict):
        return {name[0].upper() + name[1:]: _pascal(value) for name, value in node.items()}
    return [_pascal(each) for each in node] if isinstance(node, list) else node
