"""The words by which a kind of fault declares itself, and a check of the declaration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn, get_args

from staticfire.faults.errors import FaultError
from staticfire.faults.model.fault import Destroys, Fault, Strikes
from staticfire.faults.model.params import ROLES, Param

# Effects of a fault on its targets. The excuses of the checkers refer to them.
EFFECTS: Mapping[str, str] = {
    "stops": "the process ends, cleanly or not, and starts again later",
    "forgets": "data that the process held only in memory is gone",
    "rolls_back": "data that was written but not yet fsynced may be gone",
    "empties": "the disk is empty afterwards",
    "stalls": "the host or process answers nothing for a while, then continues where it was",
    "swallows": "packets to and from the target vanish",
    "disk": "writes are slow or fail",
    "writes_fail": "writes or fsyncs fail, so a server ends itself",
    "rots": "a stored record differs from what was written; it excuses nothing",
    "network": "packets that the target sends are late, lost or queued",
    "cuts": "packets between certain pairs of nodes vanish",
    "clock": "the wall clock is wrong",
    "listener": "the listener of a consumer is slow or fails",
    "routes": "a node asks other coordinators",
    "queues": "the topic has another number of queues",
    "offsets": "an operator moves the offsets of groups",
    "rights": "an administrator changes which accounts may send",
    "admin": "an administrator acts outside the load; it excuses nothing",
}
CONTROLS = ("process", "network", "disk", "clock", "client", "cluster")  # attributes of Controls
_NAME = re.compile(r"[a-z]+(-[a-z]+)*")
_TEXTS = ("summary", "simulated", "on_machines", "proof")


def check_declaration(fault: Fault) -> None:
    """Raise FaultError, one sentence, for the first part of a declaration that is wrong or missing."""
    name = getattr(fault, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _wrong(type(fault).__name__, "name", name, "small letters with hyphens, such as power-cut")
    for text in _TEXTS:
        said = getattr(fault, text, None)
        if not isinstance(said, str) or not said:
            _wrong(fault.name, text, said, "a text")
    _check_words(fault, "roles", ROLES)
    _check_words(fault, "affects", EFFECTS)
    _check_words(fault, "needs", CONTROLS, head=True)
    if not fault.affects:
        _wrong(fault.name, "affects", fault.affects, f"one or more of {', '.join(EFFECTS)}")
    if fault.many and not fault.roles:
        _wrong(fault.name, "roles", fault.roles, "one or more, because many is true")
    for attribute, literal in (("destroys", Destroys), ("strikes", Strikes)):
        if (word := getattr(fault, attribute)) not in get_args(literal):
            _wrong(fault.name, attribute, word, f"one of {', '.join(get_args(literal))}")
    low_s, high_s = fault.duration_s
    if not 0 <= low_s <= high_s < float("inf"):
        _wrong(fault.name, "duration_s", fault.duration_s, "two finite, ascending times")
    _check_params(fault)


def _check_words(
    fault: Fault, attribute: str, known: Mapping[str, object] | tuple[str, ...], head: bool = False
) -> None:
    words = getattr(fault, attribute, None)
    if not isinstance(words, tuple):
        _wrong(fault.name, attribute, words, f"a tuple of {', '.join(known)}")
    for word in words:
        if (word.partition(".")[0] if head else word) not in known:
            _wrong(fault.name, attribute, word, f"some of {', '.join(known)}")


def _check_params(fault: Fault) -> None:
    if not isinstance(fault.params, tuple) or not fault.params:
        _wrong(fault.name, "params", fault.params, "a tuple with one table for each form of a plan")
    for name, param in ((name, param) for form in fault.params for name, param in form.items()):
        if not isinstance(param, Param):
            _wrong(fault.name, f"param {name}", param, "a bounded kind of faults/model/params.py")
        if param.mistake:
            raise FaultError(f"param {name} of fault {fault.name} {param.mistake}")


def _wrong(fault: str, attribute: str, value: object, allowed: str) -> NoReturn:
    raise FaultError(f"{attribute} of fault {fault} is {value!r:.80}; allowed: {allowed}")
