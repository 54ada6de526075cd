"""Which functions can be copied, and what their copies are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.function import MeasuredFunction
from stepbench.drivers.receivers.source import (
    copy_request,
    logging_config,
    needed_rights,
    package_configuration,
    source_problems,
)

ARN = "arn:aws:lambda:eu-west-1:000000000000"
LAYER = f"{ARN}:layer:Measuring:3"
FUNCTION: dict[str, Any] = {
    "FunctionName": "orders",
    "FunctionArn": f"{ARN}:function:orders",
    "Runtime": "nodejs22.x",
    "Role": "arn:aws:iam::000000000000:role/orders",
    "Handler": "app.handler",
    "Timeout": 7,
    "MemorySize": 256,
    "PackageType": "Zip",
    "Architectures": ["arm64"],
    "EphemeralStorage": {"Size": 1024},
    "Environment": {"Variables": {"TABLE": "orders"}},
    "Layers": [{"Arn": f"{ARN}:layer:own:1", "CodeSize": 5}],
    "VpcConfig": {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"], "VpcId": "vpc-1"},
    "FileSystemConfigs": [{"Arn": "arn:efs", "LocalMountPath": "/mnt/x"}],
    "TracingConfig": {"Mode": "Active"},
    "KMSKeyArn": "arn:kms",
    "DeadLetterConfig": {"TargetArn": "arn:sqs"},
    "LoggingConfig": {"LogFormat": "JSON", "LogGroup": "/aws/lambda/orders"},
}


def test_a_copy_is_as_the_function_is_and_has_the_layer_last() -> None:
    """A later layer wins where files clash, and the wrapper has to be ours. Its dead letters are left out."""
    request = copy_request(FUNCTION, MeasuredFunction(name="orders"), LAYER, {"STEPBENCH_TRIAL": "t"})

    assert request == {
        **{name: FUNCTION[name] for name in ("Runtime", "Role", "Handler", "Timeout", "MemorySize", "Architectures")},
        **{name: FUNCTION[name] for name in ("EphemeralStorage", "KMSKeyArn", "FileSystemConfigs", "TracingConfig")},
        "Environment": {
            "Variables": {
                "TABLE": "orders",
                "STEPBENCH_TRIAL": "t",
                "AWS_LAMBDA_EXEC_WRAPPER": "/opt/stepbench-measure",
            }
        },
        "Layers": [f"{ARN}:layer:own:1", LAYER],
        "VpcConfig": {"SubnetIds": ["subnet-1"], "SecurityGroupIds": ["sg-1"]},
        "Description": "Copy of orders, made by Stepbench for one trial",
    }


def test_what_the_plan_wants_stands_above_what_the_function_has() -> None:
    """Memory is swept so, and a variable may lead the copy to a test's table."""
    wanted = MeasuredFunction(name="orders", memory_mib=512, timeout_s=9, variables={"TABLE": "t"}, snap_start=True)
    request = copy_request(FUNCTION, wanted, LAYER, {})

    assert (request["MemorySize"], request["Timeout"]) == (512, 9)
    assert request["Environment"]["Variables"]["TABLE"] == "t"
    assert request["SnapStart"] == {"ApplyOn": "PublishedVersions"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"PackageType": "Image", "Runtime": None}, "is a container image"),
        ({"Runtime": "provided.al2023"}, "has the runtime provided.al2023"),
        ({"Runtime": "java21"}, "has the runtime java21"),
        ({"Layers": [{"Arn": str(n)} for n in range(5)]}, "has 5 layers"),
        ({"Environment": {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/x"}}}, "has a wrapper already"),
        ({"Environment": {"Variables": {"STEPBENCH_TRIAL": "t"}}}, "has variables whose names"),
        ({"Environment": {"Error": {"ErrorCode": "AccessDeniedException"}}}, "has variables that are encrypted"),
    ],
)
def test_what_cannot_be_measured_is_said_with_the_way_out(change: dict[str, Any], message: str) -> None:
    """Before anything is made: such a copy would run, and print nothing."""
    (problem,) = source_problems(
        "trials[0].target.function", {**FUNCTION, **change}, MeasuredFunction(name="orders"), {}
    )

    assert problem.path == "trials[0].target.function.name"
    assert message in problem.message
    assert problem.remedy


TRIALS = {"STEPBENCH_TRIAL": "abcdefghij-0000", "STEPBENCH_IDENTITY": "", "STEPBENCH_RESULTS_TABLE": "https://table"}


@pytest.mark.parametrize(
    ("character", "bytes_each"),
    [("x", 1), ("\u00e9", 2), ('"', 2)],
)
def test_variables_have_to_leave_room_for_those_of_the_trial(character: str, bytes_each: int) -> None:
    """Lambda refuses more than 4,096 bytes as JSON, and repeats all values when it does."""
    wanted = MeasuredFunction(name="orders", records="table", variables={"MORE": "1"})
    text = (
        '{"OWN":"","MORE":"1","STEPBENCH_TRIAL":"abcdefghij-0000","STEPBENCH_IDENTITY":"",'
        '"STEPBENCH_RESULTS_TABLE":"https://table","AWS_LAMBDA_EXEC_WRAPPER":"/opt/stepbench-measure"}'
    )
    fits, left = divmod(4_096 - len(text), bytes_each)
    found = []
    for value in (character * fits + "x" * left, character * fits + "x" * left + "x"):
        source = {**FUNCTION, "Environment": {"Variables": {"OWN": value}}}
        found.append(list(source_problems("trials[0].target.function", source, wanted, TRIALS)))

    assert found[0] == []
    ((path, _, message, remedy),) = found[1]
    assert path == "trials[0].target.function.name"
    assert "come to 4,097 bytes, as JSON: Lambda takes 4,096" in message
    assert character * 9 not in f"{message}{remedy}"


def test_a_function_like_any_other_can_be_measured() -> None:
    """Also without layers, and without variables."""
    wanted = MeasuredFunction(name="orders")
    assert list(source_problems("", FUNCTION, wanted, {})) == []
    assert list(source_problems("", {"FunctionName": "f", "Runtime": "python3.13"}, wanted, {})) == []


OWN_WRAPPER = {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/x"}}


def test_a_function_that_prints_its_times_itself_may_have_what_is_in_the_layers_way() -> None:
    """Its copy gets no layer: any runtime, five layers and a wrapper of its own stay as they are."""
    wanted = MeasuredFunction(name="orders", times="own")
    found = {"Runtime": "provided.al2023", "Layers": [{"Arn": str(n)} for n in range(5)], "Environment": OWN_WRAPPER}
    source = {**FUNCTION, **found}
    request = copy_request(source, wanted, LAYER, {"STEPBENCH_TRIAL": "t"})

    assert list(source_problems("", source, wanted, {})) == []
    assert request["Layers"] == ["0", "1", "2", "3", "4"]
    assert request["Environment"]["Variables"] == {**OWN_WRAPPER["Variables"], "STEPBENCH_TRIAL": "t"}


def test_lambdas_own_lines_have_times_of_their_own_as_json() -> None:
    """At the level INFO, which both lines have; a layer's lines are text like the function's."""
    platform, layer = (MeasuredFunction(name="orders", times=times) for times in ("platform", "layer"))
    expected = {"LogFormat": "JSON", "SystemLogLevel": "INFO", "LogGroup": "group"}

    assert logging_config(platform, "group") == expected
    assert logging_config(layer, "group") == {"LogFormat": "Text", "LogGroup": "group"}


@pytest.mark.parametrize("change", [{"PackageType": "Image", "Runtime": None}, {"Environment": {"Error": {}}}])
def test_what_cannot_be_copied_is_refused_whoever_prints_its_times(change: dict[str, Any]) -> None:
    """An image, and variables that nobody can read."""
    assert list(source_problems("", {**FUNCTION, **change}, MeasuredFunction(name="orders", times="own"), {}))


def test_lambda_polls_a_stream_with_the_functions_own_role() -> None:
    """So the role needs what no function needs for S3, and MeasuringPolicy has it."""
    of_s3 = needed_rights("s3", "arn:logs:group", "arn:dynamodb:table", ("arn:sqs:invoke", ""))
    of_streams = needed_rights("dynamodb", "arn:logs:group", "arn:dynamodb:table", ("", "arn:sqs:stream"))

    assert set(of_s3) == {"arn:logs:group:log-stream:any", "arn:sqs:invoke"}
    assert of_streams["arn:dynamodb:table/stream/any"][1] == "dynamodb:GetRecords"
    assert of_streams["*"] == ("dynamodb:ListStreams",)
    assert of_streams["arn:sqs:stream"] == ("sqs:SendMessage",)


def test_only_a_layer_that_puts_its_lines_needs_the_results_table() -> None:
    """A role that logs alone is enough for all others."""
    for store in ("s3", "dynamodb"):
        assert "arn:results" not in needed_rights(store, "arn:logs:group", "arn:table", ())
        needed = needed_rights(store, "arn:logs:group", "arn:table", (), "arn:results")
        assert needed["arn:results"] == ("dynamodb:PutItem",)


def test_a_package_has_what_the_plan_says_or_a_default() -> None:
    """A folder has no configuration of its own."""
    package = MeasuredFunction(package=f"functions/{'0' * 64}.zip", handler="app.handler")

    configuration = package_configuration(package, "python3.13", "arn:role")

    assert (configuration["Runtime"], configuration["Handler"]) == ("python3.13", "app.handler")
    assert (configuration["Timeout"], configuration["MemorySize"]) == (60, 1_024)
