"""One checker out of all: most tests ask for the verdict of one, and the others cost nine tenths of the time."""

from __future__ import annotations

from staticfire.checkers.engine.kernel import Checker
from staticfire.checkers.verdicts.compose import ALL_CHECKERS


def only(name: str) -> tuple[Checker, ...]:
    """The checker of that name. Raises ValueError when there is none."""
    [checker] = (one for one in ALL_CHECKERS if one.name == name)
    return (checker,)
