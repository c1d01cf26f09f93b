"""Tables of docs/faults.md, from the declarations of the kinds of fault."""

from __future__ import annotations

from collections.abc import Iterable

from staticfire.faults.model.declaration import EFFECTS
from staticfire.faults.model.fault import Fault
from staticfire.harness.pages.generated import table

DESTROYED = {
    "none": "",
    "process": "the process's memory",
    "write_error": "dirty pages of a failed fsync",
    "power": "data not yet fsynced",
    "disk": "everything",
    "record": "single records",
}
STRIKES = {
    "at_once": "",
    "later": "at some time before its heal",
    "in_turn": "one target after another",
    "again": "also at its heal",
}


def kinds_table(faults: Iterable[Fault]) -> str:
    """Return the table of mechanisms and proofs; kinds with the same text share a row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for fault in faults:
        said = (fault.simulated, fault.on_machines, fault.proof)
        rows.setdefault(said, []).append(f"`{fault.name}`")
    head = ("kind", "in the simulation", "on real machines", "proof")
    return table(head, [(", ".join(names), *said) for said, names in rows.items()])


def plans_table(faults: Iterable[Fault]) -> str:
    """Return the table of plan entries, and of the faults' effects on their targets."""
    head = ("kind", "targets", "parameters", "effects", "destroys", "strikes", "needs")
    return table(head, [_plan_row(fault) for fault in faults])


def _plan_row(fault: Fault) -> tuple[str, ...]:
    needs = [f"`{need}`" for need in fault.needs]
    return (
        f"`{fault.name}`",
        _targets(fault),
        _params(fault),
        ", ".join(f"`{effect}`" for effect in fault.affects),
        DESTROYED[fault.destroys],
        STRIKES[fault.strikes],
        ", ".join([*needs, "accounts"] if fault.needs_accounts else needs),
    )


def _targets(fault: Fault) -> str:
    if not fault.roles:
        return "none"
    *first, last = (f"a {role}" for role in fault.roles)
    last = f"{fault.roles[-1]}s, one or more" if fault.many else last
    return ", ".join([*first, last])


def _params(fault: Fault) -> str:
    if not any(fault.params):
        return ""
    forms = (
        "; ".join(f"`{name}`: {param.about}, {param.form}" for name, param in form.items())
        for form in fault.params
    )
    return " -- or ".join(form or "none" for form in forms)


def effects_table() -> str:
    """Return the table of effects and their meaning."""
    return table(("effect", "meaning"), [(f"`{name}`", text) for name, text in EFFECTS.items()])
