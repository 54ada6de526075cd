"""
What iamprover says of a call: a second reading of IAM's rules, by a solver, beside the emulator's, which is asked, too.

To it a condition on a key that a request does not name may hold, so each key that a policy names is given its value in
the request, or none. It takes conditions with an operator that it does not know to hold: none of ours may have one.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import z3
from iamprover.engine.conditions import encode_condition
from iamprover.engine.context import Context
from iamprover.engine.encoder import allowed
from iamprover.model import Condition, Policy, Principal, Statement
from tests.samples.roles import ACCOUNT
from tests.samples.templates import Json, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ACTION, RESOURCE = z3.String("asked action"), z3.String("asked resource")


ROOT = Path(__file__).parents[2]
JUDGE = ROOT / "tests/end_to_end/judge_permissions.py"
EMULATOR_PYTHON = ROOT / ".stepbench/venvs/emulator/bin/python"
OF_EACH = "ForAllValues:"
"""Before an operator on a key of several values, of which our calls have one."""


def ask_emulator(asked: Json) -> Json:
    """Return what the emulator's evaluator says of calls, and of policies: see `judge_permissions.py`."""
    command = [EMULATOR_PYTHON, JUDGE]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=300)
    found: Json = json.loads(done.stdout)
    return found


class SecondOpinion:
    """It judges calls by the policies of roles, given as `Roles` returns them."""

    def __init__(self, policies: Mapping[str, Sequence[Json]], attached: Mapping[str, Sequence[str]]) -> None:
        read = {name: Policy(name, [_statement(each) for each in own]) for name, own in policies.items()}
        self._roles = {
            role: Principal(f"arn:aws:iam::{ACCOUNT}:role/{role}", [read[name] for name in names if name in read])
            for role, names in attached.items()
        }
        conditions = [each for policy in read.values() for one in policy.statements for each in one.conditions]
        unknown = [each for each in conditions if encode_condition(each, Context()) is None]
        assert unknown == [], "the solver does not know what these conditions ask for"
        self._keys = {each.key.lower() for each in conditions}
        self._terms: dict[str, tuple[Context, z3.BoolRef]] = {}

    def allows(self, call: Json) -> bool:
        """Tell whether a role's policies allow a call."""
        context, term = self._term(call["role"])
        given = {key.lower(): value for key, value in call["context"].items()}
        asked = [(ACTION, z3.StringVal(call["action"].lower())), (RESOURCE, z3.StringVal(call["resource"]))]
        pinned = [(context.string(key), z3.StringVal(given.get(key, ""))) for key in self._keys]
        decided = z3.simplify(z3.substitute(term, *asked, *pinned))
        assert z3.is_true(decided) or z3.is_false(decided), f"{call} is left open: {decided}"
        return bool(z3.is_true(decided))

    def _term(self, role: str) -> tuple[Context, z3.BoolRef]:
        """Return what a role's policies say of any call, with the keys that they look at; made once, it takes long."""
        if role not in self._terms:
            context = Context()
            self._terms[role] = context, allowed(self._roles[role], ACTION, RESOURCE, context)
        return self._terms[role]


def _statement(given: Json) -> Statement:
    conditions = [
        Condition(operator.removeprefix(OF_EACH), key, [str(value) for value in listed(values)])
        for operator, tests in given.get("Condition", {}).items()
        for key, values in tests.items()
    ]
    return Statement(given["Effect"], actions=given["Action"], resources=given["Resource"], conditions=conditions)
