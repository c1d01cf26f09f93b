"""The table of docs/campaigns.md, from the declared options of a campaign."""

from __future__ import annotations

from dataclasses import fields

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.options import OPTIONS
from staticfire.harness.pages.generated import table


def options_table() -> str:
    """Return a table with a row for each option: its type, its meaning and its values."""
    rows: list[tuple[str, ...]] = [
        (
            f"`{field.name}`",
            _type(str(field.type)),
            OPTIONS[field.name].meaning,
            OPTIONS[field.name].allowed,
        )
        for field in fields(Campaign)
    ]
    return table(("option", "type", "meaning", "allowed"), rows)


def _type(annotation: str) -> str:
    names = {
        "int": "whole number",
        "float": "number",
        "str": "text",
        "bool": "true or false",
        "Properties": "table",
        "tuple[PlannedFault, ...]": "list of tables",
        "tuple[PlannedOp, ...] | None": "list of tables",
    }
    if annotation in names:
        return names[annotation]
    inner = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
    return f"{'list' if inner[-1] == '...' else 'pair'} of {names[inner[0]]}s".replace(
        "texts", "text"
    )
