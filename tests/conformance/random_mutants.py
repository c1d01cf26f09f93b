"""Random mutants of our own cluster, at the wire and in its state: which share does the suite detect?

    python -m tests.conformance.random_mutants --seeds 0-199

Even seeds change what goes over the wire; odd ones change one operator, constant or condition in one function of the
system under test. A mutant that met nothing to change is none: an answer that never came, a place that no case reached,
a comparison that came out as before every time. Some of the others change nothing that a client can see, such as when a
cache is emptied; they count as not detected.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import importlib
import inspect
import json
import multiprocessing
import operator
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from staticfire.harness.conformance.case import Case, cases
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.simulated import SimulatedSite, run_in_world
from staticfire.system_under_test import broker, name_server, remoting, store
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from tests.conformance.mutants.mutant import alter_answers, alter_requests

PACKAGES = (
    broker,
    name_server,
    store,
    remoting,
)
# Requests of the cases: a mutation of any other request shows nothing.
WIRE_CODES = tuple(
    code
    for code in RequestCode
    if code not in (RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.LIFT_CATCH_UP)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What became of one mutant."""

    seed: int
    mutant: str
    detected_by: str  # a clause; empty if none
    changed: bool  # whether it met anything to change
    reason: str


def try_mutant(seed: int) -> Trial:
    """Plant the mutant of a seed and try cases until one does not pass."""
    random = Random(f"conformance/{seed}")
    changes: list[bool] = []
    detected_by = reason = ""
    with pytest.MonkeyPatch.context() as patch:
        name = (state_mutant if seed % 2 else wire_mutant)(random, patch, changes)
        for case in cases().values():
            reason = _broken(case) or ""
            if reason:
                detected_by = case.clause.id
                break
    return Trial(
        seed=seed, mutant=name, detected_by=detected_by, changed=bool(changes), reason=reason[:200]
    )


def _broken(case: Case) -> str | None:
    """Why the case does not pass; a cluster that never serves does not either."""
    try:
        result = run_in_world(case, SimulatedSite().campaign)
    except (Exception, asyncio.CancelledError) as error:  # a node of the mutant may end as it likes
        return f"{type(error).__name__}: {error}"
    return None if result.outcome is Outcome.PASSED else result.reason


# --- at the wire -------------------------------------------------------------------------------------

Alter = Callable[[RemotingCommand], RemotingCommand | None]


def wire_mutant(random: Random, patch: pytest.MonkeyPatch, changes: list[bool]) -> str:
    """One change of the answers to, or of the fields of, one request; `changes` grows when it changes something."""
    code = random.choice(used_codes())
    name, alter = random.choice(sorted(_ALTERATIONS.items()))
    number = random.randrange(1 << 30)

    def altered(command: RemotingCommand) -> RemotingCommand | None:
        before = command.encode()
        result = alter(command, Random(number))
        if result is None or result.encode() != before:
            changes.append(True)
        return result

    if random.random() < 0.7:
        alter_answers(patch, (code,), lambda _, answer: altered(answer))
        return f"answers to {code.name}: {name}"
    alter_requests(patch, (code,), altered)
    return f"requests {code.name}: {name}"


def used_codes() -> list[RequestCode]:
    """The requests that the cases send, by their sources."""
    package = importlib.import_module("staticfire.harness.conformance.cases")
    sources = [
        inspect.getsource(importlib.import_module(module.name))
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    text = "\n".join(sources)
    return [code for code in WIRE_CODES if f"RequestCode.{code.name}" in text]


def _other_code(command: RemotingCommand, random: Random) -> RemotingCommand:
    command.code = command.code + random.choice((1, 2, -1, 10))
    return command


def _field_dropped(command: RemotingCommand, random: Random) -> RemotingCommand:
    if command.ext_fields:
        del command.ext_fields[random.choice(sorted(command.ext_fields))]
    return command


def _number_changed(command: RemotingCommand, random: Random) -> RemotingCommand:
    numbers = [name for name, value in command.ext_fields.items() if value.lstrip("-").isdigit()]
    if numbers:
        name = random.choice(sorted(numbers))
        command.ext_fields[name] = str(int(command.ext_fields[name]) + random.choice((1, -1, 1000)))
    return command


def _body_damaged(command: RemotingCommand, random: Random) -> RemotingCommand:
    if command.body:
        at = random.randrange(len(command.body))
        damaged = command.body[at] ^ 1 << random.randrange(8)
        command.body = command.body[:at] + bytes((damaged,)) + command.body[at + 1 :]
    return command


def _body_cut(command: RemotingCommand, random: Random) -> RemotingCommand:
    command.body = command.body[: len(command.body) // 2]
    return command


def _no_body(command: RemotingCommand, random: Random) -> RemotingCommand:
    command.body = b""
    return command


def _lost(_: RemotingCommand, random: Random) -> None:
    return None


_ALTERATIONS: dict[str, Callable[[RemotingCommand, Random], RemotingCommand | None]] = {
    "another code": _other_code,
    "a field dropped": _field_dropped,
    "a number changed": _number_changed,
    "one bit of the body": _body_damaged,
    "half of the body": _body_cut,
    "no body": _no_body,
    "lost": _lost,
}


# --- in the state ------------------------------------------------------------------------------------


def state_mutant(random: Random, patch: pytest.MonkeyPatch, changes: list[bool]) -> str:
    """One changed operator, constant or condition in one function; `changes` grows when it makes a difference there."""
    while True:
        function = random.choice(functions())
        mutated = _mutated(function, random)
        if mutated is not None:
            code, what = mutated
            patch.setattr(function, "__code__", code)
            patch.setitem(function.__globals__, HOOK, partial(_compute, changes))
            module = function.__module__.removeprefix("staticfire.system_under_test.")
            return f"{module}.{function.__qualname__}: {what}"


def functions() -> list[FunctionType]:
    """All functions and methods of the system that a client can make run, in a fixed order."""
    found: list[FunctionType] = []
    for package in PACKAGES:
        for module in _modules(package):
            for _, value in sorted(vars(module).items()):
                if getattr(value, "__module__", "") != module.__name__:
                    continue
                members = vars(value).values() if inspect.isclass(value) else (value,)
                found += [one for one in members if isinstance(one, FunctionType)]
    return [
        one
        for one in found
        if one.__module__.startswith("staticfire.system_under_test.")
        if not one.__closure__ and not one.__name__.startswith("__")
    ]


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.ispkg:
            yield importlib.import_module(module.name)


def _mutated(function: FunctionType, random: Random) -> tuple[CodeType, str] | None:
    """Changed code and what was changed; None if there is nothing to change in the function."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None
    places = [node for node in ast.walk(tree) if _is_place(node)]
    if not places:
        return None
    planting = _Planting(random.choice(places))
    module = ast.fix_missing_locations(planting.visit(tree))
    try:
        compiled = compile(module, inspect.getfile(function), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    code = _code_of(compiled, function.__name__)
    if code is None or code.co_freevars != function.__code__.co_freevars:
        return None
    return code, f"line {getattr(planting.place, 'lineno', 0)}: {planting.reported}"


def _code_of(compiled: CodeType, name: str) -> CodeType | None:
    codes = [one for one in compiled.co_consts if isinstance(one, CodeType)]
    return next((one for one in codes if one.co_name == name), None)


HOOK = "_the_mutated_place"
_OPPOSITE: dict[str, str] = {
    "Lt": "LtE",
    "LtE": "Lt",
    "Gt": "GtE",
    "GtE": "Gt",
    "Eq": "NotEq",
    "NotEq": "Eq",
    "Is": "IsNot",
    "IsNot": "Is",
    "In": "NotIn",
    "NotIn": "In",
    "Add": "Sub",
    "Sub": "Add",
}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda left, right: left in right,
    "NotIn": lambda left, right: left not in right,
    "Add": operator.add,
    "Sub": operator.sub,
}


def _compute(changes: list[bool], kind: str, *values: Any) -> Any:
    """Stands in the mutated place: gives what comes out there now, and notes when that is not what came out before."""
    if kind not in _OPERATIONS:
        changes[:] = [True]
        return values[0] + 1 if kind == "constant" else not values[0]
    before = _OPERATIONS[kind](*values)
    try:
        after = _OPERATIONS[_OPPOSITE[kind]](*values)
    except TypeError:
        changes[:] = [True]
        raise
    if before != after:
        changes[:] = [True]
    return after


def _is_place(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and type(node.ops[0]).__name__ in _OPPOSITE
    if isinstance(node, ast.BinOp):
        return type(node.op).__name__ in _OPPOSITE
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, ast.BoolOp | ast.If)


class _Planting(ast.NodeTransformer):
    """Puts a call of `_compute` into one place."""

    def __init__(self, place: ast.AST) -> None:
        self.place = place
        self.reported = ""

    def visit(self, node: ast.AST) -> Any:
        return self._replaced(node) if node is self.place else self.generic_visit(node)

    def _replaced(self, node: ast.AST) -> ast.AST:
        match node:
            case ast.Compare():
                kind = type(node.ops[0]).__name__
                self.reported = f"{kind} to {_OPPOSITE[kind]}"
                return _call(kind, node.left, node.comparators[0])
            case ast.BinOp():
                self.reported = "plus or minus exchanged"
                return _call(type(node.op).__name__, node.left, node.right)
            case ast.Constant(value=int(value)):
                self.reported = f"{value} to {value + 1}"
                return _call("constant", node)
            case ast.If():
                self.reported = "a condition negated"
                node.test = _call("condition", node.test)
            case ast.BoolOp():
                self.reported = "and or or exchanged"
                node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                reached = _call("condition", ast.Constant(value=False))
                return ast.BoolOp(op=ast.And(), values=[reached, node])
        return node


def _call(kind: str, *values: ast.expr) -> ast.Call:
    name = ast.Name(id=HOOK, ctx=ast.Load())
    return ast.Call(func=name, args=[ast.Constant(value=kind), *values], keywords=[])


# --- the command -------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-199")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    trials: list[Trial] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=5) as pool:
        for trial in pool.imap(try_mutant, seeds):
            trials.append(trial)
            print(json.dumps(asdict(trial)), flush=True)
    for remainder, place in enumerate(("at the wire", "in the state")):
        tried = [one for one in trials if one.seed % 2 == remainder and one.changed]
        detected = sum(bool(one.detected_by) for one in tried)
        print(f"{place}: {detected} of {len(tried)} detected", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
