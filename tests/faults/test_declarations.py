"""A fault that declares itself wrongly is one sentence when it is registered, and not a surprise in a run."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from staticfire.faults.errors import FaultError
from staticfire.faults.kinds.process_faults import Kill
from staticfire.faults.model.declaration import check_declaration
from staticfire.faults.model.fault import Fault
from staticfire.faults.model.params import NodeOf, Number, OneOf, Param
from staticfire.faults.plans.catalogue import FAULTS, register


def changed(**attributes: Any) -> Fault:
    fault = type("Changed", (Kill,), {"name": "changed", **attributes})()
    assert isinstance(fault, Fault)
    return fault


class Nameless(Kill):
    name: ClassVar[str] = None  # type: ignore[assignment]


def refusal(fault: Fault) -> str:
    with pytest.raises(FaultError) as caught:
        check_declaration(fault)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"name": "Power_Cut"}, "name of fault Changed is 'Power_Cut'; allowed: small letters"),
        ({"summary": ""}, "summary of fault changed is ''; allowed: a text"),
        ({"proof": None}, "proof of fault changed is None"),
        ({"roles": None}, "roles of fault changed is None; allowed: a tuple of node, server"),
        (
            {"roles": ("master",)},
            "roles of fault changed is 'master'; allowed: some of node, server",
        ),
        ({"roles": (), "many": True}, "one or more, because many is true"),
        (
            {"affects": ("explodes",)},
            "affects of fault changed is 'explodes'; allowed: some of stops",
        ),
        ({"affects": ()}, "affects of fault changed is (); allowed: one or more of stops"),
        ({"needs": ("magic.wand",)}, "needs of fault changed is 'magic.wand'"),
        (
            {"destroys": "trust"},
            "destroys of fault changed is 'trust'; allowed: one of none, process",
        ),
        ({"strikes": "soon"}, "strikes of fault changed is 'soon'; allowed: one of at_once"),
        ({"duration_s": (2.0, 1.0)}, "duration_s of fault changed is (2.0, 1.0)"),
        ({"params": {}}, "a tuple with one table for each form"),
        ({"params": ({"x": 1},)}, "param x of fault changed is 1; allowed: a bounded kind"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(attributes: dict[str, Any], words: str) -> None:
    assert words in refusal(changed(**attributes))


@pytest.mark.parametrize(
    ("param", "words"),
    [
        (Number("", 0, float("inf")), "param x of fault changed is bounded by 0 and inf"),
        (Number("", float("nan"), 1), "two finite, ascending bounds"),
        (Number("", 2, 1), "two finite, ascending bounds"),
        (OneOf("", ()), "param x of fault changed has no choices"),
        (NodeOf("", "master"), "is a node of role 'master'; allowed: one of node"),
    ],
)
def test_a_parameter_without_bounds_is_refused(param: Param, words: str) -> None:
    assert words in refusal(changed(params=({"x": param},)))


def test_a_fault_without_a_name_or_roles_is_refused() -> None:
    assert "name of fault Nameless is None" in refusal(Nameless())


def test_two_faults_of_one_name_are_refused() -> None:
    before = dict(FAULTS)
    with pytest.raises(FaultError, match="two faults of the name 'kill'"):
        register(Kill())
    assert before == FAULTS
