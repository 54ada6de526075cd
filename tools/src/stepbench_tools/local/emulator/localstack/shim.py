"""
LocalStack without Docker: Lambda's sandboxes are processes, and DynamoDB Local is started from Maven's jars.

Loaded by `start.py`, so this file imports nothing of ours.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SUPPORTED = "4.14.0"
_INVOCATION = "localstack.services.lambda_.invocation"
PATCHED = {
    "localstack.constants": ("VERSION",),
    "localstack.services.dynamodb.packages": ("dynamodblocal_package",),
    "localstack.services.dynamodb.server": ("DynamodbServer",),
    f"{_INVOCATION}.execution_environment": ("get_runtime_executor",),
    f"{_INVOCATION}.executor_endpoint": ("StatusErrorException",),
    f"{_INVOCATION}.lambda_models": ("InvocationResult", "S3Code"),
    f"{_INVOCATION}.version_manager": ("get_runtime_executor",),
    "localstack.services.lambda_.provider": ("get_runtime_executor", "LambdaProvider", "lambda_stores"),
    "localstack.services.lambda_.resource_providers.aws_lambda_function": ("LambdaFunctionProvider",),
    "localstack.runtime.main": ("main",),
}
METHODS = {
    ("localstack.services.lambda_.provider", "LambdaProvider"): ("list_layers",),
    ("localstack.services.dynamodb.server", "DynamodbServer"): ("_create_shell_command",),
    (f"{_INVOCATION}.lambda_models", "S3Code"): ("_download_archive_to_file", "prepare_for_execution"),
    ("localstack.services.lambda_.resource_providers.aws_lambda_function", "LambdaFunctionProvider"): ("create",),
}
REMEDY = f"run `make setup-localstack` for LocalStack {SUPPORTED}"
EXECUTOR = "get_runtime_executor"


def run_sandboxes_as_processes(
    modules: Mapping[str, Any], neighbour: Callable[[Path], Any], python: str, layers: Path
) -> None:
    """Give Lambda our executor, wherever it asks for one."""
    here = Path(__file__).parent
    layer_folders, api = neighbour(here.parent / "layers.py"), neighbour(here / "runtime_api.py")
    folders = layer_folders.LayerFolders(layers, layer_folders.extract, layer_folders.layer_compiler(python))
    folders.remove_unused(time.time())
    sandboxes = neighbour(here / "sandboxes.py").Sandboxes(
        python=python,
        program=here.parent / "lambda_sandbox.py",
        runtime_api=api.RuntimeApi,
        event=api.Event,
        shared=neighbour(here.parent / "lambda_environment.py"),
        logs=neighbour(here.parent / "lambda_logs.py"),
        layers=folders,
        invocation_result=modules[f"{_INVOCATION}.lambda_models"].InvocationResult,
        start_failed=modules[f"{_INVOCATION}.executor_endpoint"].StatusErrorException,
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

    def command(server: Any) -> list[str]:  # noqa: ANN401 -- a DynamodbServer
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

    modules["localstack.services.dynamodb.server"].DynamodbServer._create_shell_command = command  # noqa: SLF001


def reserve_concurrency_by_template(modules: Mapping[str, Any]) -> None:
    """Let CloudFormation set ReservedConcurrentExecutions, which LocalStack knows from Lambda's API only."""
    provider = modules["localstack.services.lambda_.resource_providers.aws_lambda_function"].LambdaFunctionProvider
    stock = provider.create

    def create(self: Any, request: Any) -> Any:  # noqa: ANN401 -- as the original
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

    def list_layers(self: Any, context: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the original
        layers = module.lambda_stores[context.account_id][context.region].layers
        for name in [name for name, layer in layers.items() if not layer.layer_versions]:
            del layers[name]
        return stock(self, context, *arguments, **named)

    module.LambdaProvider.list_layers = list_layers


def main(load: Callable[..., dict[str, Any]], neighbour: Callable[[Path], Any]) -> None:
    """Patch and serve. From the environment come LAMBDA_PYTHON and LAMBDA_LAYERS, and what LocalStack itself reads."""
    python = os.environ.get("LAMBDA_PYTHON") or sys.exit("emulator: LAMBDA_PYTHON names no interpreter")
    layers = os.environ.get("LAMBDA_LAYERS") or sys.exit("emulator: LAMBDA_LAYERS names no folder")
    states = neighbour(Path(__file__).with_name("state_machines.py"))
    modules = load({**PATCHED, **states.PATCHED}, {**METHODS, **states.METHODS}, REMEDY)
    found = modules["localstack.constants"].VERSION
    if found != SUPPORTED:
        sys.exit(f"emulator: this is LocalStack {found}; {REMEDY}")
    run_sandboxes_as_processes(modules, neighbour, python, Path(layers))
    run_dynamodb_from_jars(modules)
    reserve_concurrency_by_template(modules)
    list_layers_that_have_versions(modules)
    states.patch(modules, float(os.environ.get("SFN_WAIT_SCALE", "1")))
    modules["localstack.runtime.main"].main()
