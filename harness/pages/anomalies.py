"""Tables of docs/anomalies.md, from the declarations of anomalies and the table of excuses."""

from __future__ import annotations

from collections.abc import Mapping

from staticfire.checkers.anomalies.anomaly import Anomaly
from staticfire.checkers.anomalies.catalogue import ANOMALIES
from staticfire.checkers.engine.kernel import Checker
from staticfire.checkers.guarantees.excuses.excuse import Excuse
from staticfire.checkers.guarantees.excuses.excuse_table import EXCUSES
from staticfire.checkers.verdicts.compose import ALL_CHECKERS
from staticfire.harness.pages.generated import table

FAITHFUL = "faithful "  # prefix of a row's name that counts in faithful mode alone


def anomalies_tables() -> str:
    """Return a heading for each promise, and under it the anomalies that break it."""
    finders = {name: checker for checker in ALL_CHECKERS for name in checker.anomalies}
    promises: dict[str, list[tuple[str, ...]]] = {}
    for anomaly in ANOMALIES.values():
        promises.setdefault(anomaly.promise, []).append(_row(anomaly, finders))
    head = ("anomaly", "title", "definition", "kernel", "test", "example")
    return "\n\n".join(
        f"### {promise.removesuffix('.')}\n\n{table(head, rows)}"
        for promise, rows in promises.items()
    )


def _row(anomaly: Anomaly, finders: Mapping[str, Checker]) -> tuple[str, ...]:
    kernel = kernel_of(finders[anomaly.name])
    folder, _, module = kernel.rpartition("/")
    test = anomaly.test or f"tests/{folder}/test_{module}"
    names = (f"`{anomaly.name}`", anomaly.title, anomaly.meaning)
    return (*names, f"`{kernel}`", f"`{test}`", anomaly.example)


def kernel_of(checker: Checker) -> str:
    """Return the path of the module with this checker's kernel."""
    finder = checker.check if checker.kernel is None else checker.kernel.partial
    return finder.__module__.removeprefix("staticfire.").replace(".", "/") + ".py"


def excuses_table() -> str:
    """Return the table of faults that make anomalies legal; anomalies with the same mechanism share a row."""
    rows: dict[tuple[str, str, str], dict[str, None]] = {}
    for of, excuses in EXCUSES.items():
        name = of.removeprefix(FAITHFUL)
        if name in ANOMALIES:
            shown = f"`{name}`" if of == name else f"`{name}` in faithful mode"
            for excuse in excuses:
                rows.setdefault(_said(excuse), {})[shown] = None
    head = ("mechanism", "effects of the fault", "on", "anomalies")
    return table(head, [(*said, ", ".join(names)) for said, names in rows.items()])


def _said(excuse: Excuse) -> tuple[str, str, str]:
    on = (role.name.lower().replace("_", " ") for role in excuse.on)
    return excuse.mechanism, ", ".join(f"`{of}`" for of in excuse.effects), ", ".join(on)
