"""
Judges calls by policies, and finds what no call needs; run by the emulator's Python, whose evaluator of IAM it asks.

Standard input: JSON with `policies` (name to statements), `attached` (role to names of policies), `calls` (role,
action, resource, context) and `others`, calls that nobody made. Standard output: `denied`, calls that no policy of
their role allows, and `unneeded`, what can be taken from a statement so that every call is allowed all the same, with
`tried`, how much was taken in turn; `allowed_others`, which of the others would be allowed.
"""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

Json = dict[str, Any]


def allowed(call: Json, documents: list[list[Any]]) -> bool:
    """Tell whether a role's policies allow a call."""
    context = EvalContext(
        principal_arn=f"arn:aws:sts::000000000000:assumed-role/{call['role']}/session",
        principal_type="AssumedRole",
        principal_account="000000000000",
        action=call["action"],
        resource_arn=call["resource"],
        region="us-east-1",
        service_context={key.lower(): value for key, value in call["context"].items()},
    )
    return bool(evaluate(context, documents).decision == "Allow")


def without(statement: Json, part: str, value: str) -> list[Json]:
    """Return the statement less one of its actions or resources; nothing if that was the only one."""
    rest = [each for each in statement[part] if each != value]
    return [{**statement, part: rest}] if rest else []


def main() -> None:
    """Judge."""
    given = json.load(sys.stdin)
    policies: dict[str, list[Json]] = given["policies"]
    parsed = {name: parse_policy_document({"Statement": copy.deepcopy(own)}) for name, own in policies.items()}
    names = {role: [name for name in attached if name in policies] for role, attached in given["attached"].items()}
    calls = given["calls"]
    denied = [call for call in calls if not allowed(call, [parsed[name] for name in names[call["role"]]])]
    unneeded, tried = [], 0
    for name, statements in policies.items():
        concerned = [call for call in calls if name in names[call["role"]]]
        for place, statement in enumerate(statements):
            others = statements[:place] + statements[place + 1 :]
            for part in ("Action", "Resource"):
                for value in statement[part]:
                    tried += 1
                    left = parse_policy_document(
                        {"Statement": copy.deepcopy([*others, *without(statement, part, value)])}
                    )
                    if all(
                        allowed(call, [left if each == name else parsed[each] for each in names[call["role"]]])
                        for call in concerned
                        if call not in denied
                    ):
                        unneeded.append({"policy": name, "statement": place, part: value, "of": statement})
    others = [call for call in given["others"] if allowed(call, [parsed[name] for name in names[call["role"]]])]
    json.dump({"denied": denied, "unneeded": unneeded, "tried": tried, "allowed_others": others}, sys.stdout)


if __name__ == "__main__":
    main()
