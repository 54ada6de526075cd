"""A stack that measures a function is no way to the rest of an account: by the template, read twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.samples.roles import ACCOUNT, MEASURED, OWN_FUNCTION, OWN_ROLE, REGION, Roles
from tests.samples.second_opinion import SecondOpinion, ask_emulator

if TYPE_CHECKING:
    from tests.samples.templates import Json

PAYROLL = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:payroll"
ADMINISTRATOR = f"arn:aws:iam::{ACCOUNT}:role/administrator"
READING = ("GetFunction", "GetFunctionConfiguration", "GetPolicy", "ListTags")
CHANGING = (
    *("AddPermission", "CreateAlias", "CreateFunction", "DeleteFunction", "InvokeFunction", "PublishVersion"),
    *("PutFunctionConcurrency", "PutFunctionEventInvokeConfig", "RemovePermission", "TagResource", "UntagResource"),
    *("UpdateFunctionCode", "UpdateFunctionConfiguration"),
)


def test_functions_of_others_are_neither_read_nor_changed() -> None:
    """Only the named are read, and of these none is changed: what is made, changed and removed are copies."""
    roles = Roles("stepbench")
    to_lambda, to_other = ({"iam:PassedToService": f"{name}.amazonaws.com"} for name in ("lambda", "ec2"))
    forbidden: list[tuple[str, str, Json]] = [(f"lambda:{action}", PAYROLL, {}) for action in READING]
    forbidden += [
        (f"lambda:{action}", function, {"lambda:Principal": "s3.amazonaws.com"})
        for action in CHANGING
        for function in (OWN_FUNCTION, PAYROLL)
    ]
    forbidden += [("iam:PassRole", ADMINISTRATOR, to_lambda), ("iam:PassRole", OWN_ROLE, to_other)]
    forbidden += [("iam:SimulatePrincipalPolicy", ADMINISTRATOR, {})]
    of_roles = [(role, *each) for role in roles.attached() for each in forbidden]
    of_roles += [(MEASURED, "dynamodb:PutItem", roles.arn("ResultsTable"), {"dynamodb:LeadingKeys": "leases"})]
    names = ("role", "action", "resource", "context")
    calls = [dict(zip(names, each, strict=True)) for each in of_roles]
    asked: Json = {"policies": roles.policies(), "attached": roles.attached(), "calls": [], "others": calls}
    assert ask_emulator(asked)["allowed_others"] == []
    opinion = SecondOpinion(asked["policies"], asked["attached"])
    assert [call for call in calls if opinion.allows(call)] == []
