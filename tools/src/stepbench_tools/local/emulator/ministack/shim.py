"""
MiniStack with Python Lambdas run by AWS's own runtime client, in processes of their own.

Loaded by `start.py`, so this file imports nothing of ours. Stock MiniStack runs Python functions by a script of its
own: every exception is a `Runtime.HandlerError`, each error costs the sandbox, and each invocation waits for log
lines. Here they go through MiniStack's Runtime API server, as its custom runtimes do, with `awslambdaric` on the other
end (`lambda_sandbox.py`, run by LAMBDA_PYTHON).

Permissions are as AWS judges them: a role may do what its policies allow. The emulator judges with AUTH=true only, and
does not see a mapping's function, which is added here. One JSON line is written for each call that is unlike those
before: role, session (a function's name), action, resource, region, what its conditions may look at, and the decision.
"""

from __future__ import annotations

import contextvars
import importlib
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


SUPPORTED = "1.5.33"
PATCHED = {
    "ministack.core.lambda_runtime": """
        ProvidedRuntimeError ProvidedWorker _lock _worker_class_for _workers execution_credentials kill_workers""",
    "ministack.core.lambda_runtime:ProvidedWorker": """
        _await_init _build_handler_class _drain_stderr _drain_stderr_bounded _pump_output _spawn invoke""",
    "ministack.core.iam_actions": "request_tag_context extract_resource_arn _lambda_action _query_param",
    "ministack.core.iam_evaluator": "enforce evaluate is_root_access_key",
    "ministack.services.lambda_svc": """
        _docker_extracted_dir _dynamodb_stream_positions _dynamodb_stream_positions_lock _emit_lambda_logs
        _execute_function _execute_function_provided_warm _execute_function_warm _functions _inflight_key _invoke
        _iter_all_esms _poll_dynamodb_streams _provided_code_lock _provided_runtime_code_dir _provided_worker_env
        _release_execution_slot _reserved_concurrency _resolve_layer_zip _runtime_env_vars
        _send_ddb_stream_failure_record _throttle_response _validate_total_unzipped_size
        _xray_trace_id_for_invocation error_response_json executions_in_flight invalidate_worker
        invoke_async_with_retry release_worker""",
    "ministack.services.apigateway": "_invoke_lambda_proxy",
    "ministack.services.cloudformation": "_stacks",
    "ministack.services.cloudwatch_logs": "_append_log_events _log_groups",
    "ministack.services.cloudformation.provisioners": "_RESOURCE_HANDLERS _update_resource",
    "ministack.services.dynamodb": "_transact_write_items _txn_token_lookup stream_records_since",
    "ministack.services.ecs": """
        _ACTION_MAP _awslogs_config _cleanup_task_resources _describe_tasks _emit_awslogs_event
        _ensure_awslogs_stream _get_docker _mark_task_running _mark_task_stopped _register_metadata
        _resolve_cluster_name _resolve_task _resolve_td_key _run_task _sanitize _stop_task _task_defs _tasks
        json_response""",
    "ministack.services.stepfunctions": """
        _ExecutionError _SERVICE_DISPATCH _apply_input_path _apply_jsonata_output _apply_output_path
        _apply_parameters _apply_result_selector _call_lambda _error_matches _execute_task _fail_execution
        _find_matching_retrier _invoke_with_callback _pascal_to_camel _resolve_path_or_ctx _run_distributed_map
        _run_map_items _run_sub_machine _start_execution _task_tokens error_response_json new_uuid time""",
}
"""What is built upon: names in modules, and in classes of theirs."""
REMEDY = f"install ministack[full]=={SUPPORTED}"

Json = dict[str, Any]


def sample_no_traces(service: Any) -> None:
    """Tell functions that their traces are not sampled: there is no X-Ray here, and its SDK takes long to import."""
    stock = service._xray_trace_id_for_invocation

    def trace_id(config: Json, inbound_trace_header: str | None = None) -> str | None:
        header: str | None = stock(config, inbound_trace_header)
        return header and header.replace("Sampled=1", "Sampled=0")

    service._xray_trace_id_for_invocation = trace_id


def accept_max_concurrency_path(service: Any) -> None:
    """Let a Distributed Map take MaxConcurrencyPath, as AWS does; MiniStack reads the literal field only."""
    stock = service._run_distributed_map

    def run(state: Json, raw_input: Any, effective: Any, *rest: Any) -> Any:
        if "MaxConcurrencyPath" in state:
            context = rest[-1]
            limit = service._resolve_path_or_ctx(state["MaxConcurrencyPath"], effective, context)
            state = {**state, "MaxConcurrency": int(limit)}
        return stock(state, raw_input, effective, *rest)

    service._run_distributed_map = run


def repeat_transactions(service: Any) -> None:
    """
    Answer a transaction that is sent again with its token as the first time, as DynamoDB does.

    MiniStack keeps the request to compare, and then brings its numbers into another form ("0.10" becomes "0.1"): a
    repetition is refused as IdempotentParameterMismatchException, though everything has been written.
    """
    stock, lookup = service._transact_write_items, service._txn_token_lookup

    def transact(request: Json) -> Any:
        token = request.get("ClientRequestToken")
        given = {name: value for name, value in request.items() if name != "ClientRequestToken"}
        asked = json.dumps(given, sort_keys=True)
        if token and (prior := lookup(token)) and prior.get("asked") == asked:
            prior["signature"] = given
        answer = stock(request)
        if token and (entry := lookup(token)):
            entry.setdefault("asked", asked)
        return answer

    service._transact_write_items = transact


def take_rules_between_members(provisioners: Any) -> None:
    """Take the rule by which members of a network may talk; MiniStack has no networks, and does not know its type."""

    def create(logical_id: str, *_: object) -> tuple[str, Json]:
        return logical_id, {}

    rule = {"create": create, "delete": lambda *_: None}
    provisioners._RESOURCE_HANDLERS.setdefault("AWS::EC2::SecurityGroupIngress", rule)


def keep_attributes_of_nested(provisioners: Any, stacks: dict[str, Json]) -> None:
    """
    Keep what resources of a nested stack are asked for when an update leaves them as they are.

    MiniStack forgets to hand it on, so that `GetAtt` fails: code was changed, and the second deployment broke.
    """
    stock = provisioners._update_resource

    def update(*given: Any) -> Any:
        if len(given) == 6:  # noqa: PLR2004 -- all but the attributes: a nested stack's
            stack, name = given[-2:]
            given = (*given, stacks[stack]["_resources"][name]["Attributes"])
        return stock(*given)

    provisioners._update_resource = update


_OWN: contextvars.ContextVar[bool] = contextvars.ContextVar("of the caller's own policies", default=False)
_ASSUMED = ":assumed-role/"
FUNCTION, PRINCIPAL = "lambda:functionarn", "lambda:principal"


def record_decisions(evaluator: Any, path: Path) -> None:
    """Have each decision on a role's own policies written to a file, once."""
    enforce, evaluate, write = evaluator.enforce, evaluator.evaluate, _writer(path)

    def enforce_marked(access_key: str, *arguments: Any, **named: Any) -> Any:
        if evaluator.is_root_access_key(access_key):  # also unsigned: PostgreSQL's stand-in has no role
            return None
        token = _OWN.set(True)
        try:
            return enforce(access_key, *arguments, **named)
        finally:
            _OWN.reset(token)

    def evaluate_recorded(context: Any, *policies: Any) -> Any:
        result = evaluate(context, *policies)
        if _OWN.get() and _ASSUMED in context.principal_arn:
            _OWN.set(False)  # what follows are resources' policies
            write(_line(context, result.decision))
        return result

    evaluator.enforce, evaluator.evaluate = enforce_marked, evaluate_recorded


def supply_condition_keys(actions: Any) -> None:
    """Have conditions see the function of a new event source mapping, and whom a function admits, as on AWS."""
    from_body = actions.request_tag_context

    def context_from_body(of: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = from_body(of, action, body, params)
        if action == "lambda:CreateEventSourceMapping":
            return {**found, FUNCTION: json.loads(body)["FunctionName"]}
        if action == "lambda:AddPermission":
            return {**found, PRINCIPAL: json.loads(body)["Principal"]}
        return found

    actions.request_tag_context = context_from_body


def name_resources(actions: Any) -> None:
    """Have policies see what AWS shows them: a new function's name, a role that is asked about, and one more action."""
    resource_of, action_of = actions.extract_resource_arn, actions._lambda_action

    def resource(of: str, method: str, path: str, *given: Any) -> Any:
        _, body, params, region, account = given
        if of == "lambda" and action_of(method, path) == "CreateFunction":
            return f"arn:aws:lambda:{region}:{account}:function:{json.loads(body)['FunctionName']}"
        if of == "iam" and (source := actions._query_param(params, "PolicySourceArn")):
            return source
        return resource_of(of, method, path, *given)

    def action(method: str, path: str) -> Any:
        if method == "PUT" and path.endswith("/event-invoke-config"):
            return "PutFunctionEventInvokeConfig"
        return action_of(method, path)

    actions.extract_resource_arn, actions._lambda_action = resource, action


def _line(context: Any, decision: str) -> str:
    role, _, session = context.principal_arn.partition(_ASSUMED)[2].partition("/")
    fields = {
        "role": role,
        "session": session,
        "action": context.action,
        "resource": context.resource_arn,
        "region": context.region,
        "context": {key: value for key, value in context.service_context.items() if value is not None},
        "decision": decision,
    }
    return json.dumps(fields, sort_keys=True, default=str)


def _writer(path: Path) -> Callable[[str], None]:
    seen: set[str] = set()
    lock = threading.Lock()

    def write(line: str) -> None:
        with lock:
            if line not in seen:
                seen.add(line)
                with path.open("a", encoding="utf-8") as file:
                    file.write(f"{line}\n")

    return write


def main(load: Callable[..., dict[str, Any]], neighbour: Callable[[Path], Any]) -> None:
    """Patch and serve. From the environment come GATEWAY_PORT, LAMBDA_PYTHON and LAMBDA_LAYERS; the rest is fixed."""
    python = os.environ.get("LAMBDA_PYTHON") or sys.exit("emulator: LAMBDA_PYTHON names no interpreter")
    port = os.environ.get("GATEWAY_PORT") or sys.exit("emulator: GATEWAY_PORT names no port")
    root = os.environ.get("LAMBDA_LAYERS") or sys.exit("emulator: LAMBDA_LAYERS names no folder")
    os.environ.update(
        BIND_HOST="127.0.0.1", IOT_MTLS_ENABLED="0", SFTP_ENABLED="0", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}"
    )
    modules = load(PATCHED, REMEDY)
    service = modules["ministack.services.lambda_svc"]
    provisioners = modules["ministack.services.cloudformation.provisioners"]
    here = Path(__file__).parent
    sandboxes, limits = neighbour(here / "sandboxes.py"), neighbour(here / "limits.py")
    parts, states = neighbour(here.parent / "lambda_parts.py"), neighbour(here / "state_machines.py")
    runtime, gateway = modules["ministack.core.lambda_runtime"], modules["ministack.services.apigateway"]
    machines, ecs = modules["ministack.services.stepfunctions"], modules["ministack.services.ecs"]
    folders = parts.LayerFolders(Path(root), parts.extract, parts.layer_compiler(python))
    sandboxes.run_under_runtime_client(runtime, service, python, parts, folders)
    limits.queue_for_sandboxes(service, gateway, max(2, os.cpu_count() or 2))
    limits.reserve_concurrency_by_template(provisioners, service)
    sandboxes.log_as_json(service, modules["ministack.services.cloudwatch_logs"], parts)
    sandboxes.patch_layers(service, provisioners, folders)
    sample_no_traces(service)
    limits.await_reserved_concurrency(service)
    neighbour(here / "stream_retries.py").Retries(service, modules["ministack.services.dynamodb"])
    limits.finish_invocations(runtime, service)
    tasks = neighbour(here / "tasks.py")
    tasks.run_as_processes(
        tasks.Parts(
            ecs,
            runtime.execution_credentials,
            lambda arns: sandboxes.layer_folders(service, {"Layers": arns}),
            parts.module_path,
            parts.base_environment(),
            python,
            int(os.environ.get("ECS_TASKS_AT_ONCE") or 0),
        )
    )
    tasks.wait_for_tasks(machines, ecs)
    repeat_transactions(modules["ministack.services.dynamodb"])
    take_rules_between_members(provisioners)
    keep_attributes_of_nested(provisioners, modules["ministack.services.cloudformation"]._stacks)
    accept_max_concurrency_path(machines)
    states.end_failed_maps(machines)
    states.begin_at_once(machines)
    states.await_signs_of_life(machines)
    limits.refuse_large_requests(service)
    limits.limit_unzipped_size(provisioners, service)
    limits.limit_state_data(machines)
    limits.name_throttles(machines)
    limits.watch_memory(runtime)
    if decisions := os.environ.get("DECISIONS"):
        record_decisions(modules["ministack.core.iam_evaluator"], Path(decisions))
        supply_condition_keys(modules["ministack.core.iam_actions"])
        name_resources(modules["ministack.core.iam_actions"])
    importlib.import_module("ministack.app").main()
