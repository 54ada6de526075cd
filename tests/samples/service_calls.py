"""
Calls in the name of a role that no emulator here makes, each with the page that says who makes it.

AWS's services use a function's or a machine's role themselves; some services are not emulated; some stores run on AWS
only; and some of our own calls belong to failures that cannot be brought about here.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.samples.roles import ACCOUNT, MEASURED, OWN_ROLE, REGION
from tests.statemachines.conftest import load_machine

from stepbench.drivers.dsql.clusters import STACK_TAG
from stepbench.drivers.receivers.source import copy_name, needed_rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.samples.roles import Roles

_DOCS = "https://docs.aws.amazon.com/"
_TARGET_TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/stepbench-target-abc-0000"


class Call(NamedTuple):
    """A call of whoever has the role: of what on what, and what conditions look at. `source`: a page, or why."""

    role: str
    action: str
    resource: str
    source: str
    context: Mapping[str, Any] = MappingProxyType({})


def service_calls(roles: Roles) -> list[Call]:
    """Return all of them, for the roles of a stack."""
    found = [*_streams(roles), *_machines(roles), *_autoscaling(), *_traces(), *_other_stores(roles), *_dsql(roles)]
    found += [*_results(roles), *_quotas(), *_schedule(roles), *_transfers(roles), *_tasks(roles)]
    found += [*_dataflow(roles), *_systems_manager(roles)]
    found += [*_copies(roles), *_measured(roles)]
    return [*found, *_failures(roles), *_console(roles), *_load_host(roles), *_not_seen(roles)]


def _streams(roles: Roles) -> Iterator[Call]:
    source = f"{_DOCS}lambda/latest/dg/services-dynamodb-eventsourcemapping.html"
    for function in ("ReceiveEventsFunction", "CheckClockFunction"):
        for action in ("DescribeStream", "GetRecords", "GetShardIterator"):
            yield Call(function, f"dynamodb:{action}", f"{_TARGET_TABLE}/stream/2026-01-01T00:00:00.000", source)
        yield Call(function, "dynamodb:ListStreams", "*", source)
        yield Call(function, "sqs:SendMessage", roles.arn("StreamFailuresQueue"), source)
    why = "Lambda has given deliveries up: stages/refused_deliveries.py"
    for queue in ("StreamFailuresQueue", "InvokeFailuresQueue"):
        for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility"):
            yield Call("CollectLogsFunction", f"sqs:{action}", roles.arn(queue), why)
    for action in ("GetRecords", "GetShardIterator"):
        yield Call("CollectLogsFunction", f"dynamodb:{action}", f"{_TARGET_TABLE}/stream/2026-01-01T00:00:00.000", why)
    asynchronous = f"{_DOCS}lambda/latest/dg/invocation-async-retain-records.html"
    yield Call("ReceiveEventsFunction", "sqs:SendMessage", roles.arn("InvokeFailuresQueue"), asynchronous)


def _schedule(roles: Roles) -> Iterator[Call]:
    universal = f"{_DOCS}scheduler/latest/UserGuide/managing-targets-universal.html"
    yield Call("ScheduleRole", "states:StartExecution", roles.arn("BenchmarkStateMachine"), universal)
    undelivered = f"{_DOCS}scheduler/latest/UserGuide/configuring-schedule-dlq.html"
    yield Call("ScheduleRole", "sqs:SendMessage", roles.arn("InvokeFailuresQueue"), undelivered)


def _machines(roles: Roles) -> Iterator[Call]:
    """Yield what the definitions ask for, by the pages on each integration."""
    integrations = f"{_DOCS}step-functions/latest/dg/service-integration-iam-templates.html"
    logs = f"{_DOCS}step-functions/latest/dg/cw-logs.html"
    execution = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:stepbench-Trial"
    for name, owner in (("benchmark", "BenchmarkStateMachine"), ("trial", "TrialStateMachine")):
        for task in load_machine(name).tasks():
            yield Call(owner, "lambda:InvokeFunction", roles.arn(f"{task.function}Function"), integrations)
        for action in ("Create", "Get", "Update", "Delete"):
            yield Call(owner, f"logs:{action}LogDelivery", "*", logs)
        for action in ("ListLogDeliveries", "PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups"):
            yield Call(owner, f"logs:{action}", "*", logs)
        yield Call(owner, "states:StartExecution", roles.arn("TrialStateMachine"), integrations)
        for action in ("DescribeExecution", "StopExecution"):
            yield Call(owner, f"states:{action}", f"{execution}:run", integrations)
    for action in ("DescribeExecution", "StopExecution"):
        yield Call("TrialStateMachine", f"states:{action}", f"{execution}/OfferLoad:child", integrations)
    rule = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule"
    for action in ("PutTargets", "PutRule", "DescribeRule"):
        yield Call("BenchmarkStateMachine", f"events:{action}", rule, integrations)
    yield Call("TrialStateMachine", "s3:GetObject", f"{roles.arn('ResultsBucket')}/runs/r/items.json", integrations)
    yield Call("TrialStateMachine", "sqs:SendMessage", roles.arn("LoadQueue"), integrations)
    yield Call("TrialStateMachine", "dynamodb:PutItem", roles.arn("ResultsTable"), integrations)


def _dataflow(roles: Roles) -> Iterator[Call]:
    """Yield what the machine that runs DAGs asks for, and what of its functions the emulator does not see."""
    integrations = f"{_DOCS}step-functions/latest/dg/service-integration-iam-templates.html"
    logs = f"{_DOCS}step-functions/latest/dg/cw-logs.html"
    owner, execution = "DataflowStateMachine", f"arn:aws:states:{REGION}:{ACCOUNT}:execution:{roles.stack}-Dataflow"
    for function in ("RunTask", "RunVideoTask", "RunLearningTask", "EndDataflow"):
        yield Call(owner, "lambda:InvokeFunction", roles.arn(f"{function}Function"), integrations)
    for action in ("Create", "Get", "Update", "Delete"):
        yield Call(owner, f"logs:{action}LogDelivery", "*", logs)
    for action in ("ListLogDeliveries", "PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups"):
        yield Call(owner, f"logs:{action}", "*", logs)
    yield Call(owner, "states:StartExecution", roles.arn(owner), integrations)
    for action in ("DescribeExecution", "StopExecution"):
        for name in (f"{execution}:run", f"{execution}/WideLevel:child"):
            yield Call(owner, f"states:{action}", name, integrations)
    yield Call(owner, "s3:GetObject", f"{roles.arn('ResultsBucket')}/runs/r/dags/d/levels/00.json", integrations)
    yield from _tasks_of_dags(roles)
    why = "executions that still run are stopped: experiments/dataflow/driver.py"
    for role in ("PrepareTargetFunction", "TearDownTargetFunction", "SweepTargetsFunction"):
        yield Call(role, "states:ListExecutions", roles.arn(owner), why)
        yield Call(role, "states:StopExecution", f"{execution}:abc-0000_00", why)
    why = "writers and AwaitTarget start executions, PrepareTarget has a policy in common with them"
    for role in ("RunWriterFunction", "AwaitTargetFunction", "PrepareTargetFunction"):
        yield Call(role, "states:StartExecution", roles.arn(owner), why)


def _tasks_of_dags(roles: Roles) -> Iterator[Call]:
    missing = f"{_DOCS}AmazonS3/latest/API/API_GetObject.html: without it a missing object is refused, not missing"
    secrets = f"{_DOCS}secretsmanager/latest/userguide/retrieving-secrets.html"
    given = [roles.resolve({"Ref": f"{store}SecretArn"}) for store in ("Redis", "Cassandra")]
    bucket, results, table = (roles.arn(name) for name in ("TargetBucket", "ResultsBucket", "ResultsTable"))
    variants = "the same code with other libraries: statemachines/dataflow.asl.json"
    for role in ("RunTaskFunction", "RunVideoTaskFunction", "RunLearningTaskFunction", "EndDataflowFunction"):
        for secret in given:
            yield Call(role, "secretsmanager:GetSecretValue", secret, secrets)
        yield Call(role, "s3:GetObject", f"{results}/runs/r/trial.json", variants)
        for action in ("GetItem", "PutItem"):
            yield Call(role, f"dynamodb:{action}", table, variants)
        if role != "EndDataflowFunction":
            yield Call(role, "s3:ListBucket", bucket, missing)
            for action in ("GetObject", "PutObject"):
                yield Call(role, f"s3:{action}", f"{bucket}/abc-0000/1", variants)
    for role in ("MakeInputFunction", "MakeVideoInputFunction", "MakeLearningInputFunction"):
        yield Call(role, "s3:PutObject", f"{results}/runs/r/trials/0000/dags/d/input.bin", variants)
        yield Call(role, "s3:GetObject", f"{roles.arn('FilesBucket')}/digits.bin", "a file that a plan names")
        yield Call(role, "s3:GetObject", f"{results}/runs/r/trials/0000/trial.json", variants)
        yield Call(role, "s3:ListBucket", results, missing)
        yield Call(role, "dynamodb:GetItem", table, variants)
    why = "the results table does not answer: stages/end_dataflow.py"
    yield Call("EndDataflowFunction", "s3:PutObject", f"{results}/t4-fallback/t/1", why)


def _autoscaling() -> Iterator[Call]:
    source = f"{_DOCS}amazondynamodb/latest/developerguide/AutoScaling.Permissions.html"
    service = "application-autoscaling"
    target = f"arn:aws:{service}:{REGION}:{ACCOUNT}:scalable-target/1234"
    of = {f"{service}:service-namespace": "dynamodb"}
    of[f"{service}:scalable-dimension"] = "dynamodb:table:WriteCapacityUnits"
    alarm = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:TargetTracking-table/stepbench-target-abc-0000-AlarmHigh-1"
    linked = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/dynamodb.{service}.amazonaws.com/"
    name = {"iam:AWSServiceName": f"dynamodb.{service}.amazonaws.com"}
    for role in ("PrepareTargetFunction", "ScaleTargetFunction", "TearDownTargetFunction", "SweepTargetsFunction"):
        for action in ("RegisterScalableTarget", "PutScalingPolicy", "DeregisterScalableTarget"):
            yield Call(role, f"{service}:{action}", target, source, of)
        for action in ("PutMetricAlarm", "DeleteAlarms", "DescribeAlarms"):
            yield Call(role, f"cloudwatch:{action}", alarm, source)
        yield Call(role, "iam:CreateServiceLinkedRole", f"{linked}AWSServiceRoleForDynamoDB", source, name)


def _traces() -> Iterator[Call]:
    source = f"{_DOCS}xray/latest/devguide/xray-api-gettingdata.html"
    for action in ("GetTraceSummaries", "BatchGetTraces"):
        yield Call("ValidatePlanFunction", f"xray:{action}", "*", source)


def _quotas() -> Iterator[Call]:
    """Yield what is asked of an account alone, which an emulator is not: stages/validate_plan.py."""
    lambda_page = f"{_DOCS}lambda/latest/api/API_GetAccountSettings.html"
    table_page = f"{_DOCS}amazondynamodb/latest/APIReference/API_DescribeLimits.html"
    quota_page = f"{_DOCS}servicequotas/2019-06-24/apireference/API_ListServiceQuotas.html"
    for role in ("ValidatePlanFunction", "HttpApiFunction"):
        yield Call(role, "servicequotas:ListServiceQuotas", "*", quota_page)
        yield Call(role, "lambda:GetAccountSettings", "*", lambda_page)
        yield Call(role, "dynamodb:DescribeLimits", "*", table_page)


def _other_stores(roles: Roles) -> Iterator[Call]:
    secrets = f"{_DOCS}secretsmanager/latest/userguide/retrieving-secrets.html"
    aurora = roles.arn("AuroraPostgresqlStack", "Outputs.SecretArn")
    given = [roles.resolve({"Ref": f"{store}SecretArn"}) for store in ("Postgresql", "Redis", "Cassandra")]
    for role in ("PrepareTargetFunction", "AwaitTargetFunction", "RunWriterFunction", "TearDownTargetFunction"):
        for secret in (*given, aurora):
            yield Call(role, "secretsmanager:GetSecretValue", secret, secrets)
    for secret in (given[0], aurora):  # only PostgreSQL's server can be scaled
        yield Call("ScaleTargetFunction", "secretsmanager:GetSecretValue", secret, secrets)
    capacity = f"{_DOCS}AmazonRDS/latest/AuroraUserGuide/aurora-serverless-v2.html"
    cluster = roles.arn("AuroraPostgresqlStack", "Outputs.Arn")
    for action in ("DescribeDBClusters", "ModifyDBCluster", "AddTagsToResource", "RemoveTagsFromResource"):
        yield Call("ScaleTargetFunction", f"rds:{action}", cluster, capacity)
    trigger = f"{_DOCS}AmazonRDS/latest/AuroraUserGuide/PostgreSQL-Lambda.html"
    yield Call("PostgresqlInvokeRole", "lambda:InvokeFunction", roles.arn("ReceiveEventsFunction"), trigger)


def _systems_manager(roles: Roles) -> Iterator[Call]:
    """Yield what a Cassandra node is configured with: one document, on one host."""
    source = f"{_DOCS}service-authorization/latest/reference/list_awssystemsmanager.html"
    host, document = (roles.arn("CassandraStack", f"Outputs.{name}") for name in ("HostId", "Operator"))
    for role in ("ScaleTargetFunction", "TearDownTargetFunction", "SweepTargetsFunction"):
        yield Call(role, "ssm:SendCommand", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{host}", source)
        yield Call(role, "ssm:SendCommand", f"arn:aws:ssm:{REGION}:{ACCOUNT}:document/{document}", source)
        yield Call(role, "ssm:GetCommandInvocation", "*", source)


def _dsql(roles: Roles) -> Iterator[Call]:
    """Yield what writers and the custom resource do, by DSQL's page on actions, resources and condition keys."""
    source = f"{_DOCS}service-authorization/latest/reference/list_amazonauroradsql.html"
    stack, pair = roles.arn("DsqlStack", "Outputs.SingleArn"), roles.arn("DsqlStack", "Outputs.PairArn")
    remote, peer = roles.arn("DsqlRemoteCluster"), roles.arn("DsqlPeerCluster")
    given = roles.resolve({"Ref": "DsqlClusterArns"})
    for role in ("PrepareTargetFunction", "TearDownTargetFunction"):
        for cluster in (stack, pair, remote, peer, given):
            yield Call(role, "dsql:DbConnect", cluster, source)
    for cluster in (stack, pair, remote):
        yield Call("BootstrapDsqlFunction", "dsql:DbConnectAdmin", cluster, source)
    regions = {name: str(roles.resolve({"Ref": f"Dsql{name}Region"})) for name in ("Remote", "Peer", "Witness")}
    made = {name: f"arn:aws:dsql:{region}:{ACCOUNT}:cluster/made" for name, region in regions.items()}
    tagged, own = {"aws:RequestTag/stepbench:stack": roles.stack}, {"aws:ResourceTag/stepbench:stack": roles.stack}
    witness = {"dsql:WitnessRegion": regions["Witness"]}
    asked: list[tuple[str, tuple[str, ...], Mapping[str, str]]] = [
        *((action, (made["Remote"], made["Peer"]), tagged) for action in ("CreateCluster", "TagResource")),
        ("GetCluster", (made["Remote"], made["Peer"], pair), {}),
        ("DeleteCluster", (made["Remote"], made["Peer"]), own),
        ("UpdateCluster", (pair,), {}),
        *((action, (pair, made["Peer"]), {}) for action in ("PutMultiRegionProperties", "AddPeerCluster")),
        ("RemovePeerCluster", (made["Peer"], f"arn:aws:dsql:{REGION}:{ACCOUNT}:cluster/pair"), {}),
        ("PutWitnessRegion", (pair, made["Peer"], made["Witness"]), witness),
    ]
    for action, clusters, context in asked:
        for cluster in clusters:
            yield Call("BootstrapDsqlFunction", f"dsql:{action}", cluster, source, context)
    yield from _dsql_creations(roles, source)


def _dsql_creations(roles: Roles, source: str) -> Iterator[Call]:
    """Yield what trials that create clusters ask for, in two regions that no parameter names, and of a witness."""
    here, there, witness = (
        f"arn:aws:dsql:{region}:{ACCOUNT}:cluster/made" for region in (REGION, "eu-west-1", "eu-west-2")
    )
    tagged, own = ({f"aws:{what}Tag/{STACK_TAG}": roles.stack} for what in ("Request", "Resource"))
    asked: list[tuple[str, tuple[str, ...], Mapping[str, str]]] = [
        *((action, (here, there), tagged) for action in ("CreateCluster", "TagResource")),
        ("GetCluster", (here, there), {}),
        ("UpdateCluster", (here,), own),
        *(
            (action, (here, there), {})
            for action in ("PutMultiRegionProperties", "AddPeerCluster", "RemovePeerCluster")
        ),
        ("PutWitnessRegion", (here, there, witness), {"dsql:WitnessRegion": "eu-west-2"}),
    ]
    for action, clusters, context in asked:
        for cluster in clusters:
            yield Call("RunWriterFunction", f"dsql:{action}", cluster, source, context)
    for role in ("PrepareTargetFunction", "AwaitTargetFunction", "TearDownTargetFunction", "SweepTargetsFunction"):
        yield Call(role, "dsql:ListClusters", "*", source)
        yield Call(role, "dsql:GetCluster", here, source)
        if role != "AwaitTargetFunction":
            yield Call(role, "dsql:DeleteCluster", here, source, own)


def _results(roles: Roles) -> Iterator[Call]:
    """Yield what the buckets' custom resource does when the stack is deleted."""
    why = "the stack is deleted: stages/drop_results.py, and tests/emulators/test_deletion.py"
    role = "DropResultsFunction"
    for bucket in (roles.arn("ResultsBucket"), roles.arn("FilesBucket")):
        for action in ("ListBucketVersions", "ListBucketMultipartUploads", "DeleteBucket"):
            yield Call(role, f"s3:{action}", bucket, why)
        for action in ("DeleteObject", "DeleteObjectVersion", "AbortMultipartUpload"):
            yield Call(role, f"s3:{action}", f"{bucket}/runs/r/x", why)
    yield Call(role, "cloudformation:DescribeStacks", str(roles.resolve({"Ref": "AWS::StackId"})), why)
    yield Call(role, "lambda:InvokeFunction", roles.arn(role), why)


def _transfers(roles: Roles) -> Iterator[Call]:
    """Yield what is asked of files where they are on EFS, or are not there yet."""
    mounting = f"{_DOCS}lambda/latest/dg/configuration-filesystem.html"
    system = roles.arn("EfsStack", "Outputs.FileSystemArn")
    point = {"elasticfilesystem:AccessPointArn": roles.arn("EfsStack", "Outputs.AccessPointArn")}
    for role in ("SeedFilesFunction", "RunTransferFunction", "TransferTaskRole"):
        yield Call(role, "elasticfilesystem:ClientMount", system, mounting, point)
    yield Call("SeedFilesFunction", "elasticfilesystem:ClientWrite", system, mounting, point)
    bucket = roles.arn("FilesBucket")
    missing = f"{_DOCS}AmazonS3/latest/API/API_GetObject.html: without it a missing object is refused, not missing"
    for role in ("SeedFilesFunction", "PlanPhaseFunction"):
        yield Call(role, "s3:ListBucket", bucket, missing)
    why = "an upload in parts breaks off: stages/seed_files.py"
    yield Call("SeedFilesFunction", "s3:AbortMultipartUpload", f"{bucket}/files/7/750.bin", why)


def _tasks(roles: Roles) -> Iterator[Call]:
    """Yield what `ecs:runTask.sync` asks for in the machine's name, and a task for itself."""
    source = f"{_DOCS}step-functions/latest/dg/connect-ecs.html"
    machine = "TrialStateMachine"
    yield Call(machine, "ecs:RunTask", roles.arn("FargateStack", "Outputs.TaskDefinitionArn"), source)
    for action in ("StopTask", "DescribeTasks"):
        yield Call(machine, f"ecs:{action}", f"arn:aws:ecs:{REGION}:{ACCOUNT}:task/{roles.stack}/1234", source)
    to_ecs = {"iam:PassedToService": "ecs-tasks.amazonaws.com"}
    for role in (roles.arn("TransferTaskRole"), roles.arn("FargateStack", "Outputs.ExecutionRoleArn")):
        yield Call(machine, "iam:PassRole", role, source, to_ecs)
    rule = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/StepFunctionsGetEventsForECSTaskRule"
    for action in ("PutTargets", "PutRule", "DescribeRule"):
        yield Call(machine, f"events:{action}", rule, source)
    why = "a task fetches what it runs when it starts: stacks/fargate.yaml"
    for layer in ("CoreLayer", "LibrariesLayer"):
        yield Call("TransferTaskRole", "lambda:GetLayerVersion", str(roles.resolve({"Ref": layer})), why)


def _failures(roles: Roles) -> Iterator[Call]:
    """Yield what our own code asks for when something has failed in a way that is not brought about here."""
    why = "the results table does not answer: stages/receive_events.py"
    for role in ("ReceiveEventsFunction", "CheckClockFunction"):
        for prefix in ("t4-fallback", "malformed-fallback"):
            yield Call(role, "s3:PutObject", f"{roles.arn('ResultsBucket')}/{prefix}/t/1", why)
    why = "an upload in parts breaks off: boto3's transfer manager"
    yield Call("ExportRecordsFunction", "s3:AbortMultipartUpload", f"{roles.arn('ResultsBucket')}/runs/r/x", why)
    why = "PrepareTarget is cancelled, or finds what an earlier trial of its run has left: stages/prepare_target.py"
    bucket = roles.arn("TargetBucket")
    yield Call("PrepareTargetFunction", "s3:ListBucketVersions", bucket, why)
    for action in ("DeleteObject", "DeleteObjectVersion"):
        yield Call("PrepareTargetFunction", f"s3:{action}", f"{bucket}/abc-0000/1", why)
    yield Call("PrepareTargetFunction", "dynamodb:DeleteItem", roles.arn("ResultsTable"), why)
    yield Call("PrepareTargetFunction", "dynamodb:DeleteTable", _TARGET_TABLE, why)
    mapping = f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:1234"
    function = {"lambda:FunctionArn": roles.arn("ReceiveEventsFunction")}
    yield Call("PrepareTargetFunction", "lambda:DeleteEventSourceMapping", mapping, why, function)
    why = "the target is held: PrepareTarget asks whether the holder's execution is over: stages/leftovers.py"
    execution = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:{roles.stack}-Trial:run"
    yield Call("PrepareTargetFunction", "states:DescribeExecution", execution, why)


def _copies(roles: Roles) -> Iterator[Call]:
    """Yield what AWS, or a failure, asks for of who makes and removes copies of measured functions."""
    copy, group = _copy(roles)
    maker, source = "PrepareTargetFunction", f"{_DOCS}lambda/latest/dg/"
    passed = {"iam:PassedToService": "lambda.amazonaws.com"}
    yield Call(maker, "iam:PassRole", OWN_ROLE, f"{source}lambda-intro-execution-role.html", passed)
    yield Call(maker, "lambda:TagResource", copy, f"{source}configuration-tags.html")
    yield Call(
        maker, "lambda:GetLayerVersion", "arn:aws:lambda:us-east-1:123456789012:layer:any:3", f"{source}layers.html"
    )
    for action in ("DescribeSecurityGroups", "DescribeSubnets", "DescribeVpcs"):
        yield Call(maker, f"ec2:{action}", "*", f"{source}configuration-vpc.html")
    yield Call(maker, "elasticfilesystem:DescribeMountTargets", "*", f"{source}configuration-filesystem.html")
    yield Call(maker, "lambda:PublishVersion", copy, f"{source}snapstart.html")
    invoke = f"{_DOCS}AmazonRDS/latest/AuroraUserGuide/PostgreSQL-Lambda.html"
    yield Call("PostgresqlInvokeRole", "lambda:InvokeFunction", copy, invoke)
    code = f"{roles.arn('ResultsBucket')}/functions/copies/abc-0000.zip"
    for role, why in (
        (maker, "PrepareTarget is cancelled: stages/target_driver.py"),
        ("TearDownTargetFunction", "the trial has ended: drivers/receivers/copy.py"),
        ("SweepTargetsFunction", "no trial has it any more: stages/orphaned_copies.py"),
    ):
        yield Call(role, "lambda:GetFunctionConfiguration", copy, why)
        yield Call(role, "lambda:DeleteFunction", copy, why)
        yield Call(role, "logs:DeleteLogGroup", group, why)
        yield Call(role, "s3:DeleteObject", code, why)
        mapping = f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:1234"
        yield Call(role, "lambda:DeleteEventSourceMapping", mapping, why, {"lambda:FunctionArn": copy})
    yield Call("SweepTargetsFunction", "lambda:ListTags", copy, "stages/orphaned_copies.py, of one that is not young")
    yield Call("CollectLogsFunction", "cloudwatch:GetMetricData", "*", "drivers/receivers/metrics.py, not on emulators")


def _copy(roles: Roles) -> tuple[str, str]:
    name = copy_name("abc-0000", roles.stack)
    group = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/aws/lambda/{name}"
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}", group


def _measured(roles: Roles) -> Iterator[Call]:
    """Yield what Lambda does in the name of a copy's role, which is that of the function."""
    queues = (roles.arn("InvokeFailuresQueue"), roles.arn("StreamFailuresQueue"))
    for resource, actions in needed_rights("dynamodb", _copy(roles)[1], _TARGET_TABLE, queues).items():
        for action in actions:
            yield Call(MEASURED, action, resource, "drivers/receivers/source.py, which asks IAM whether it may")
    why = "the layer puts its lines there: layers/measuring/"
    yield Call(MEASURED, "dynamodb:PutItem", roles.arn("ResultsTable"), why, {"dynamodb:LeadingKeys": "lines#abc-0000"})


def _console(roles: Roles) -> Iterator[Call]:
    why = "an execution is stopped whose parent is gone: stages/sweep_targets.py"
    for machine in ("Benchmark", "Trial"):
        execution = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:{roles.stack}-{machine}:run"
        for action in ("DescribeExecution", "StopExecution"):
            yield Call("SweepTargetsFunction", f"states:{action}", execution, why)


def _load_host(roles: Roles) -> Iterator[Call]:
    why = "the host fetches what it runs when it is made: stacks/load-host.yaml"
    for layer in ("CoreLayer", "LibrariesLayer", "StoresLayer", "AuthoritiesLayer"):
        yield Call("LoadHostRole", "lambda:GetLayerVersion", str(roles.resolve({"Ref": layer})), why)


def _not_seen(roles: Roles) -> Iterator[Call]:
    """Yield what the emulator is asked for and does not name, or has measured otherwise than AWS."""
    mapping = f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:1234"
    for role in ("TearDownTargetFunction", "SweepTargetsFunction"):
        for function in ("ReceiveEventsFunction", "CheckClockFunction"):
            context = {"lambda:FunctionArn": roles.arn(function)}
            why = "MiniStack finds no action in the request: drivers/dynamodb/trigger.py"
            yield Call(role, "lambda:DeleteEventSourceMapping", mapping, why, context)
    why = "a table's units, which the emulator's own utilisation stands for: drivers/dynamodb/__init__.py"
    yield Call("MeasureUtilisationFunction", "dynamodb:DescribeTable", _TARGET_TABLE, why)
    why = (
        "runs that are set against earlier ones: stages/run_regressions.py, and who is to confirm one: conclude_run.py"
    )
    yield Call("RenderReportFunction", "dynamodb:Query", f"{roles.arn('RunsTable')}/index/by-plan", why)
    yield Call("ConcludeRunFunction", "states:StartExecution", roles.arn("BenchmarkStateMachine"), why)
    why = "a plan whose rows are in the bucket, or are missing there: stages/validate_plan.py"
    rows = roles.arn("ResultsBucket")
    yield Call("ValidatePlanFunction", "s3:GetObject", f"{rows}/values/rows.jsonl", why)
    yield Call("ValidatePlanFunction", "s3:ListBucket", rows, why, {"s3:prefix": "values/rows.jsonl"})
    why = "deletions for a target with same_sandbox: stages/check_clock.py"
    yield Call("CheckClockFunction", "dynamodb:DeleteItem", _TARGET_TABLE, why)
