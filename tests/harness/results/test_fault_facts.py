"""What facts say of nodes that ended by themselves."""

from __future__ import annotations

from staticfire.checkers.model.history import NEMESIS, Op, OpType
from staticfire.harness.results.fault_facts import exits_of


def op(index: int, process: int, type_: OpType, f: str, node: str, error: str | None = None) -> Op:
    return Op(
        index=index,
        time_ns=index,
        process=process,
        type=type_,
        f=f,
        value={},
        error=error,
        node=node,
    )


def test_a_client_that_declined_its_configuration_is_quoted() -> None:
    ops = [
        op(0, 7, "fail", "open", "consumer-1", "this client cannot do more_topics"),
        op(1, 8, "ok", "open", "consumer-2"),
        op(2, NEMESIS, "info", "node_exit", "consumer-1", "status 0"),
        op(3, NEMESIS, "info", "node_exit", "consumer-2", "status 1"),
        op(4, 9, "ok", "open", "consumer-1"),
        op(5, NEMESIS, "info", "node_exit", "consumer-1", "status 2"),
    ]

    assert [(ended.node, ended.error) for ended in exits_of(ops)] == [
        ("consumer-1", "status 0: this client cannot do more_topics"),
        ("consumer-2", "status 1"),
        ("consumer-1", "status 2"),
    ]
