"""`make docs`: writes the generated parts of the pages in docs/. Run it from the root of the repository."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.conformance.outputs.contract_page import contract_page
from staticfire.harness.pages import (
    client_protocol,
    inevitable,
    museum,
    mutants,
    shrinking,
    track_record,
)
from staticfire.harness.pages.anomalies import anomalies_tables, excuses_table
from staticfire.harness.pages.campaigns import options_table
from staticfire.harness.pages.cli import admin_page, cli_page
from staticfire.harness.pages.faults import effects_table, kinds_table, plans_table
from staticfire.harness.pages.generated import source, with_part
from staticfire.harness.pages.op_values import op_values
from staticfire.harness.pages.schema import protocol_schema

# Page -> its generated parts by name.
PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/anomalies.md": {"anomalies": anomalies_tables, "excuses": excuses_table},
    "docs/campaigns.md": {"options": options_table},
    "docs/how-to/a-checker.md": {"example": partial(source, "tests/support/outside_checker.py")},
    "docs/how-to/a-fault.md": {"example": partial(source, "tests/support/outside_fault.py")},
    "docs/how-to/a-workload.md": {"example": partial(source, "tests/support/outside_workload.py")},
    "docs/how-to/python-clients.md": {
        "example": partial(source, "docs/examples/clients/produce_and_consume.py")
    },
    "docs/explain.md": {"score": inevitable.jumps_text, "jumps": inevitable.jumps_table},
    "docs/faults.md": {
        "kinds": lambda: kinds_table(FAULTS.values()),
        "plans": lambda: plans_table(FAULTS.values()),
        "effects": effects_table,
    },
    "docs/client-protocol.md": {
        "requests": client_protocol.requests_table,
        "fields of requests": client_protocol.request_fields_table,
        "fields of answers": client_protocol.result_fields_table,
        "reports": client_protocol.reports_table,
        "fields of reports": client_protocol.report_fields_table,
        "items of lists": client_protocol.items_table,
    },
    "docs/museum.md": {
        "score": museum.score_table,
        "figures": museum.figures_text,
        "guided": museum.guided_table,
        "pieces": museum.pieces_table,
        "not found": museum.not_found_table,
        "changes": museum.changes_table,
    },
    "docs/shrink.md": {"score": shrinking.shrunk_text, "shrunk": shrinking.shrunk_table},
    "docs/track-record.md": {
        "counts": track_record.counts_text,
        "own": partial(track_record.bugs_table, "own"),
        "apache": partial(track_record.bugs_table, "apache"),
        "client": partial(track_record.bugs_table, "client"),
    },
    "docs/mutants.md": {
        "rule": mutants.rule_text,
        "score": mutants.score_text,
        "kinds": mutants.kinds_table,
        "survivors": mutants.survivors_table,
        "found": mutants.found_table,
    },
}
# Files that are generated as a whole.
FILES: Mapping[str, Callable[[], str]] = {
    "docs/client-protocol.schema.json": protocol_schema,
    "docs/cli.md": cli_page,
    "docs/cli-admin.md": admin_page,
    "docs/contract.md": contract_page,
    "checkers/op_kinds/values.py": op_values,
}


def made_page(name: str, page: str) -> str:
    """Return the page with all of its parts generated again. Raises PageError."""
    if name in FILES:
        return FILES[name]()
    for part, make in PAGES[name].items():
        page = with_part(page, part, make())
    return page


def main() -> None:
    """Write every page that is stale."""
    for name in (*PAGES, *FILES):
        path = Path(name)
        page = path.read_text(encoding="utf-8") if path.exists() else ""
        made = made_page(name, page)
        if made != page:
            path.write_text(made, encoding="utf-8")
            print(f"{name} is written")


if __name__ == "__main__":
    main()
