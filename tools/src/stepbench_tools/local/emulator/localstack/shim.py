"""
LocalStack without Docker: Lambda's sandboxes are processes, and DynamoDB Local is started from Maven's jars.

Its Step Functions are changed where they depart from AWS's documentation and a machine of ours depends on it. Loaded
by `start.py`, so this file imports nothing of ours.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SUPPORTED = "4.14.0"
_INVOCATION = "localstack.services.lambda_.invocation"
_ASL = "localstack.services.stepfunctions.asl"
_ENVIRONMENT = f"{_ASL}.eval.environment"
_NAME = f"{_ASL}.component.common.error_name.custom_error_name"
_PARSER = f"{_ASL}.parse.asl_parser"
_RETRIER = f"{_ASL}.component.common.retry.retrier_decl"
_WAIT = f"{_ASL}.component.state.state_wait.wait_function.wait_function"
_TIMESTAMP = f"{_ASL}.component.state.state_wait.wait_function.timestamp"
_READER = f"{_ASL}.component.state.state_execution.state_map.item_reader.item_reader_decl"
_READER_CSV = (
    f"{_ASL}.component.state.state_execution.state_map.item_reader.resource_eval.resource_output_transformer"
    ".resource_output_transformer_csv"
)
_PROVIDER = "localstack.services.stepfunctions.provider"
PATCHED = {
    "localstack.constants": "VERSION",
    "localstack.services.dynamodb.packages": "dynamodblocal_package",
    "localstack.services.dynamodb.server": "DynamodbServer",
    "localstack.services.dynamodb.server:DynamodbServer": "_create_shell_command",
    f"{_INVOCATION}.execution_environment": "get_runtime_executor",
    f"{_INVOCATION}.lambda_models": "InvocationResult S3Code",
    f"{_INVOCATION}.lambda_models:S3Code": "_download_archive_to_file prepare_for_execution",
    f"{_INVOCATION}.version_manager": "get_runtime_executor",
    "localstack.services.lambda_.provider": "get_runtime_executor LambdaProvider lambda_stores",
    "localstack.services.lambda_.provider:LambdaProvider": "list_layers",
    "localstack.services.lambda_.resource_providers.aws_lambda_function": "LambdaFunctionProvider",
    "localstack.services.lambda_.resource_providers.aws_lambda_function:LambdaFunctionProvider": "create",
    "localstack.runtime.main": "main",
    _PROVIDER: "StepFunctionsProvider",
    f"{_PROVIDER}:StepFunctionsProvider": "list_executions",
    _ENVIRONMENT: "Environment ProgramStopped",
    f"{_ENVIRONMENT}:Environment": "set_error set_stop",
    _NAME: "ILLEGAL_CUSTOM_ERROR_PREFIX",
    _PARSER: "InputStream",
    _RETRIER: "time",
    _WAIT: "WaitFunction",
    f"{_WAIT}:WaitFunction": "_wait_interval",
    _TIMESTAMP: "Timestamp",
    f"{_TIMESTAMP}:Timestamp": "_get_wait_seconds",
    _READER: "ItemReader",
    f"{_READER}:ItemReader": "_eval_body",
    _READER_CSV: """
        EventDetails FailureEvent FailureEventException HistoryEventType MapRunFailedEventDetails StatesErrorName
        StatesErrorNameType""",
}
"""What is built upon: names in modules, and in classes of theirs."""
REMEDY = f"run `make setup-localstack` for LocalStack {SUPPORTED}"
EXECUTOR = "get_runtime_executor"


def patch_state_machines(modules: Mapping[str, Any], wait_scale: float) -> None:
    """Patch LocalStack's state machines; `wait_scale` is a factor on Waits and retry intervals, for tests."""
    accept_whole_percentages(modules[_PARSER])
    wait_exactly(modules[_WAIT], modules[_TIMESTAMP], modules[_RETRIER], wait_scale)
    stay_stopped(modules[_ENVIRONMENT])
    keep_names_of_nested_errors(modules[_NAME])
    name_a_reader_s_failure(modules[_READER], modules[_READER_CSV])
    list_no_children_of_map_runs(modules[_PROVIDER])


def accept_whole_percentages(parser: Any) -> None:
    """Let ToleratedFailurePercentage be a whole number, as in AWS's examples; LocalStack's grammar wants a fraction."""
    stock, whole = parser.InputStream, re.compile(r'("ToleratedFailurePercentage"\s*:\s*\d+)(?=\s*[,}])')
    parser.InputStream = lambda text: stock(whole.sub(r"\1.0", text))


def wait_exactly(wait: Any, timestamp: Any, retrier: Any, scale: float) -> None:
    """
    Let a Wait end at its time.

    LocalStack cuts what is left until a timestamp down to whole seconds, so that it ends up to one too early.
    """

    def wait_interval(_self: Any, env: Any, wait_seconds: float) -> None:
        until = time.monotonic() + wait_seconds * scale
        while env.is_running() and (left_s := until - time.monotonic()) > 0:
            env.program_state_event.wait(left_s)

    wait.WaitFunction._wait_interval = wait_interval
    timestamp.int = float  # its only use there is the cut
    retrier.time = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds * scale))


def stay_stopped(environment: Any) -> None:
    """Let an execution that is stopped inside a Map or Parallel end as ABORTED: what breaks there is no failure."""
    stock = environment.Environment.set_error

    def set_error(self: Any, error: Any) -> None:
        if not isinstance(self._program_state, environment.ProgramStopped):
            stock(self, error)

    environment.Environment.set_error = set_error


def keep_names_of_nested_errors(custom: Any) -> None:
    """
    Let an error such as States.Timeout keep its name on its way out of a Map's iteration or a Parallel's branch.

    LocalStack takes it for a name of the machine's own there, refuses its prefix, and says States.Runtime.
    """
    custom.ILLEGAL_CUSTOM_ERROR_PREFIX = "\0"  # no name begins so


def name_a_reader_s_failure(reader: Any, names: Any) -> None:
    """
    Let a Map whose items cannot be read fail as States.ItemReaderFailed, which States.ALL catches.

    LocalStack says States.Runtime, which on AWS nothing catches.
    """
    stock = reader.ItemReader._eval_body

    def read(self: Any, env: Any) -> None:
        try:
            stock(self, env)
        except names.FailureEventException:
            raise
        except Exception as error:
            name = names.StatesErrorName(typ=names.StatesErrorNameType.StatesItemReaderFailed)
            details = names.MapRunFailedEventDetails(error=name.error_name, cause=str(error))
            failure = names.FailureEvent(
                env=env,
                error_name=name,
                event_type=names.HistoryEventType.TaskFailed,
                event_details=names.EventDetails(mapRunFailedEventDetails=details),
            )
            raise names.FailureEventException(failure_event=failure) from error

    reader.ItemReader._eval_body = read


def list_no_children_of_map_runs(provider: Any) -> None:
    """
    Let ListExecutions of a map run answer that there are none.

    A Distributed Map's iterations are executions on AWS; LocalStack runs them within the Map's, and asked for them it
    fails for want of a state machine.
    """
    stock = provider.StepFunctionsProvider.list_executions

    def list_executions(self: Any, *arguments: Any, map_run_arn: str | None = None, **named: Any) -> Any:
        return {"executions": []} if map_run_arn else stock(self, *arguments, **named)

    provider.StepFunctionsProvider.list_executions = list_executions


def run_sandboxes_as_processes(
    modules: Mapping[str, Any], neighbour: Callable[[Path], Any], python: str, layers: Path
) -> None:
    """Give Lambda our executor, wherever it asks for one."""
    here = Path(__file__).parent
    parts = neighbour(here.parent / "lambda_parts.py")
    folders = parts.LayerFolders(layers, parts.extract, parts.layer_compiler(python))
    folders.remove_unused(time.time())
    sandboxes = neighbour(here / "sandboxes.py").Sandboxes(
        python=python,
        program=here.parent / "lambda_sandbox.py",
        parts=parts,
        layers=folders,
        invocation_result=modules[f"{_INVOCATION}.lambda_models"].InvocationResult,
    )
    for module in modules.values():
        if hasattr(module, EXECUTOR):
            setattr(module, EXECUTOR, lambda: sandboxes)


def run_dynamodb_from_jars(modules: Mapping[str, Any]) -> None:
    """Start DynamoDB Local with the Java of PATH; it ends with this process, however that ends."""
    package = modules["localstack.services.dynamodb.packages"].dynamodblocal_package
    installer = package.get_installer()
    installer.get_java_env_vars = dict
    if not installer.get_installed_dir():
        sys.exit("emulator: DynamoDB Local's jars are missing; run `make setup-localstack`")

    def command(server: Any) -> list[str]:
        jars = installer.get_installed_dir()
        java = [
            "java",
            f"-Xmx{server.heap_size}",
            f"-Djava.library.path={jars}",
            "-Djava.net.preferIPv4Stack=true",
            "-cp",
            f"{jars}/*",
        ]
        main = "software.amazon.dynamodb.services.local.main.ServerRunner"
        return [
            "setpriv",
            "--pdeathsig",
            "KILL",
            *java,
            main,
            "-port",
            str(server.port),
            "-inMemory",
            "-disableTelemetry",
        ]

    modules["localstack.services.dynamodb.server"].DynamodbServer._create_shell_command = command


def reserve_concurrency_by_template(modules: Mapping[str, Any]) -> None:
    """Let CloudFormation set ReservedConcurrentExecutions, which LocalStack knows from Lambda's API only."""
    provider = modules["localstack.services.lambda_.resource_providers.aws_lambda_function"].LambdaFunctionProvider
    stock = provider.create

    def create(self: Any, request: Any) -> Any:
        event = stock(self, request)
        reserved = request.desired_state.get("ReservedConcurrentExecutions")
        if event.status.name == "SUCCESS" and reserved is not None:
            request.aws_client_factory.lambda_.put_function_concurrency(
                FunctionName=event.resource_model["FunctionName"], ReservedConcurrentExecutions=int(reserved)
            )
        return event

    provider.create = create


def list_layers_that_have_versions(modules: Mapping[str, Any]) -> None:
    """Let ListLayers leave out a layer of which no version is left; LocalStack fails at the first."""
    module = modules["localstack.services.lambda_.provider"]
    stock = module.LambdaProvider.list_layers

    def list_layers(self: Any, context: Any, *arguments: Any, **named: Any) -> Any:
        layers = module.lambda_stores[context.account_id][context.region].layers
        for name in [name for name, layer in layers.items() if not layer.layer_versions]:
            del layers[name]
        return stock(self, context, *arguments, **named)

    module.LambdaProvider.list_layers = list_layers


def main(load: Callable[..., dict[str, Any]], neighbour: Callable[[Path], Any]) -> None:
    """Patch and serve. From the environment come LAMBDA_PYTHON and LAMBDA_LAYERS, and what LocalStack itself reads."""
    python = os.environ.get("LAMBDA_PYTHON") or sys.exit("emulator: LAMBDA_PYTHON names no interpreter")
    layers = os.environ.get("LAMBDA_LAYERS") or sys.exit("emulator: LAMBDA_LAYERS names no folder")
    modules = load(PATCHED, REMEDY)
    found = modules["localstack.constants"].VERSION
    if found != SUPPORTED:
        sys.exit(f"emulator: this is LocalStack {found}; {REMEDY}")
    run_sandboxes_as_processes(modules, neighbour, python, Path(layers))
    run_dynamodb_from_jars(modules)
    reserve_concurrency_by_template(modules)
    list_layers_that_have_versions(modules)
    patch_state_machines(modules, float(os.environ.get("SFN_WAIT_SCALE", "1")))
    modules["localstack.runtime.main"].main()
