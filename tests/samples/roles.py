"""The roles of the template with their policies, resolved as if every condition held, and the calls to try on them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.samples.templates import Json, listed, load_template

from stepbench_tools.local.commands import NAME as LOAD_HOST

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCOUNT, REGION = "000000000000", "us-east-1"
FUNCTION, MACHINE, ROLE = "AWS::Serverless::Function", "AWS::Serverless::StateMachine", "AWS::IAM::Role"
TASK = "RunTransferTask"
"""The family of a transfer's task is called so, behind the stack's name; its sessions here have that name."""
_OWN_ROLE = {FUNCTION, MACHINE, ROLE}
_ARNS = {
    FUNCTION: f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{{}}",
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{{}}",
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{{}}",
    MACHINE: f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{{}}",
}
_REFERENCE_IS_ARN = {MACHINE}
OWN_FUNCTION, OWN_ROLE = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:orders", f"arn:aws:iam::{ACCOUNT}:role/orders"
"""The one function that plans may measure, and its role: see `tests.end_to_end.own_function`."""
MEASURED = "MeasuredRole"
"""Stands for the role of a function that is measured, to which its owner has attached `MeasuringPolicy`."""
_PARAMETERS = {"MeasuredFunctions": [OWN_FUNCTION], "MeasuredRoles": [OWN_ROLE]}
_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::URLSuffix": "amazonaws.com"}
_NOTHING = object()


@dataclass(frozen=True)
class Roles:
    """
    It resolves the template's policies.

    stack: its name. physical: logical to physical ids, of what is deployed; the rest is called by its logical id.
    """

    stack: str
    physical: Mapping[str, str] = field(default_factory=dict)
    template: Json = field(default_factory=lambda: load_template("template.yaml"))

    def policies(self) -> dict[str, list[Json]]:
        """Return the statements of each policy by name: a managed policy's logical id, or the role's owner's."""
        found = {}
        for name, resource in self.template["Resources"].items():
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::IAM::ManagedPolicy":
                found[name] = self._statements(properties["PolicyDocument"])
            elif resource["Type"] in _OWN_ROLE:
                inline = [
                    each for each in properties.get("Policies", ()) if "Ref" not in each and isinstance(each, dict)
                ]
                documents = [each.get("PolicyDocument", each) for each in inline]
                found[name] = [one for document in documents for one in self._statements(document)]
        return {name: statements for name, statements in found.items() if statements}

    def attached(self) -> dict[str, list[str]]:
        """Return the names of the policies that each function, machine or role has."""
        found = {MEASURED: ["MeasuringPolicy"]}
        for name, resource in self.template["Resources"].items():
            if resource["Type"] in _OWN_ROLE:
                properties = resource["Properties"]
                given = (*properties.get("Policies", ()), *properties.get("ManagedPolicyArns", ()))
                found[name] = [each["Ref"] for each in given if isinstance(each, dict) and "Ref" in each] + [name]
        for name, resource in self.template["Resources"].items():
            for each in resource.get("Properties", {}).get("Roles", ()):  # attached from the policy's side
                role = each.get("Fn::If", ("", each))[1]["Ref"]
                found[role if role in found else role.removesuffix("Role")].append(name)
        return found

    def knows(self, session: str) -> bool:
        """Tell whether a session is of one of the stack's roles; callers of the API have roles of their own."""
        return session == LOAD_HOST or session.startswith(f"{self.stack}-")

    def owner(self, session: str) -> str:
        """Return the logical id of who has a role, by the session's name: a function's, a task's or the load host's."""
        name = session.removeprefix(f"{self.stack}-")
        return {LOAD_HOST: "LoadHostRole", TASK: "TransferTaskRole"}.get(name, f"{name}Function")

    def arn(self, logical: str, attribute: str = "Arn") -> str:
        """Return an attribute of a resource, which may be one that is not deployed."""
        kind = self.template["Resources"].get(logical, {}).get("Type", "")
        if attribute != "Arn" or kind not in _ARNS:
            return f"arn:aws:none:{REGION}:{ACCOUNT}:{logical}.{attribute}"
        return _ARNS[kind].format(self._physical(logical))

    def resolve(self, node: Any) -> Any:  # noqa: ANN401 -- JSON
        """Return a part of the template with its functions resolved; of conditions the first alternative."""
        match node:
            case list():
                return [found for each in node if (found := self.resolve(each)) is not _NOTHING]
            case {"Ref": name}:
                return self._reference(name)
            case {"Fn::GetAtt": [logical, *attribute]}:
                return self.arn(logical, ".".join(attribute))
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{([^}]+)\}", lambda found: self._substitute(found[1]), text)
            case {"Fn::If": [_, first, _]}:
                return self.resolve(first)
        return {key: self.resolve(value) for key, value in node.items()} if isinstance(node, dict) else node

    def _statements(self, document: Json) -> list[Json]:
        found = []
        for statement in self.resolve(document["Statement"]):
            own = {**statement, "Action": listed(statement["Action"]), "Resource": listed(statement["Resource"])}
            found.append(own)
        return found

    def _physical(self, logical: str) -> str:
        known = self.physical.get(logical)
        if known is None:
            resource = self.template["Resources"][logical]
            properties = resource.get("Properties", {})
            given = properties.get("FunctionName") or properties.get("Name")
            return str(self.resolve(given)) if given else logical.lower()
        return known.rpartition("/" if "://" in known else ":")[2]

    def _reference(self, name: str) -> Any:  # noqa: ANN401 -- a text, or nothing
        if name == "AWS::NoValue":
            return _NOTHING
        if name == "AWS::StackName":
            return self.stack
        if name in _PSEUDO:
            return _PSEUDO[name]
        if name in _PARAMETERS:
            return _PARAMETERS[name]
        if name in self.template["Resources"]:
            kind = self.template["Resources"][name]["Type"]
            return self.arn(name) if kind in _REFERENCE_IS_ARN else self._physical(name)
        return f"arn:aws:none:{REGION}:{ACCOUNT}:{name}"

    def _substitute(self, name: str) -> str:
        logical, _, attribute = name.partition(".")
        return self.arn(logical, attribute) if attribute else str(self._reference(name))
