"""Mutants: a target that breaks one clause, so that its case is seen to fail.

Most of them lie on the wire: a function changes what a case sends or receives. The others replace a function of the
system under test while the case runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from staticfire.harness.conformance.wire import Wire
from staticfire.system_under_test.protocol.command import RemotingCommand

Answer = RemotingCommand
Answers = Callable[[RemotingCommand, RemotingCommand], RemotingCommand | None]
Requests = Callable[[RemotingCommand], RemotingCommand | None]
Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One broken target."""

    clause: str  # whose case must fail
    name: str
    plant: Patch


MUTANTS: list[Mutant] = []


def system(clause: str) -> Callable[[Patch], Patch]:
    """A mutant that replaces a function of the system under test."""

    def register(plant: Patch) -> Patch:
        MUTANTS.append(Mutant(clause=clause, name=plant.__name__, plant=plant))
        return plant

    return register


def answers(clause: str, *codes: int) -> Callable[[Answers], Answers]:
    """A mutant that changes the answers to requests with these codes, all without codes; None: no answer."""

    def register(alter: Answers) -> Answers:
        def plant(patch: pytest.MonkeyPatch) -> None:
            alter_answers(patch, codes, alter)

        MUTANTS.append(Mutant(clause=clause, name=alter.__name__, plant=plant))
        return alter

    return register


def requests(clause: str, *codes: int) -> Callable[[Requests], Requests]:
    """A mutant that carries out something else than what was asked; None: nothing at all."""

    def register(alter: Requests) -> Requests:
        def plant(patch: pytest.MonkeyPatch) -> None:
            alter_requests(patch, codes, alter)

        MUTANTS.append(Mutant(clause=clause, name=alter.__name__, plant=plant))
        return alter

    return register


def alter_answers(patch: pytest.MonkeyPatch, codes: tuple[int, ...], alter: Answers) -> None:
    asked: dict[tuple[int, int], RemotingCommand] = {}
    send, received = Wire.send, Wire._received

    def remembering(wire: Wire, command: RemotingCommand) -> object:
        future = send(wire, command)
        asked[id(wire), command.opaque] = command
        return future

    def altering(wire: Wire, command: RemotingCommand) -> None:
        request = asked.get((id(wire), command.opaque))
        if command.is_response and request is not None and (not codes or request.code in codes):
            altered = alter(request, command)
            if altered is None:
                return
            command = altered
        received(wire, command)

    patch.setattr(Wire, "send", remembering)
    patch.setattr(Wire, "_received", altering)


def alter_requests(patch: pytest.MonkeyPatch, codes: tuple[int, ...], alter: Requests) -> None:
    send_bytes, send = Wire.send_bytes, Wire.send

    def altering(wire: Wire, command: RemotingCommand) -> object:
        if codes and command.code not in codes:
            return send(wire, command)

        def instead(self: Wire, _clean: bytes) -> None:
            altered = alter(command)
            if altered is not None:
                send_bytes(self, altered.encode())

        with pytest.MonkeyPatch.context() as for_this:
            for_this.setattr(Wire, "send_bytes", instead)
            return send(wire, command)

    patch.setattr(Wire, "send", altering)
