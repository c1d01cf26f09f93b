"""Tables of docs/museum.md, from the pieces and the figures of `make museum`."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from staticfire.faults.defects import DEFECTS, TIERS, Defect
from staticfire.harness.museum.measured import Measured, read_measured
from staticfire.harness.museum.searches import Search
from staticfire.harness.pages.generated import table

NOT_MEASURED = Measured()
EASY_SEEDS = 5  # a guided search of so few seeds is a blind one


def score_table() -> str:
    """Return the table of pieces found in each tier, by recipe and blind."""
    measured = read_measured()
    rows = []
    for tier, meaning in TIERS.items():
        names = [name for name, defect in DEFECTS.items() if defect.tier == tier]
        rows.append((tier, meaning, str(len(names)), *_found(names, measured)))
    rows.append(("all", "", str(len(DEFECTS)), *_found(list(DEFECTS), measured)))
    return table(("tier", "a piece is", "pieces", "by recipe", "blind"), rows)


def _found(names: list[str], measured: Mapping[str, Measured]) -> tuple[str, str]:
    both = [measured.get(name, NOT_MEASURED) for name in names]
    return (
        _share([piece.recipe for piece in both]),
        _share([piece.blind for piece in both]),
    )


def _share(searches: list[Search]) -> str:
    tried = [search for search in searches if search.seeds]
    return f"{sum(search.is_found for search in tried)} of {len(tried)}" if tried else ""


def figures_text() -> str:
    """Return the figures of the searches in sentences."""
    measured = read_measured()
    known = [measured[name] for name in DEFECTS if name in measured]
    recipes = [piece.recipe for piece in known if piece.recipe.seeds]
    blind = [piece.blind for piece in known if piece.blind.seeds]
    lines = []
    if found := [search.cpu_s for search in recipes if search.is_found]:
        lines.append(
            f"By recipe: {len(found)} of {len(recipes)} pieces, median {median(found):.1f} CPU s and at most"
            f" {max(found):.0f} CPU s to the first run that shows the bug."
        )
    off = [search.off for search in recipes if search.off]
    lines.append(
        f"Off: of {len(off)} recipes whose seed was run on the clean system, {off.count('valid')} are valid there,"
        f" {off.count('unknown')} unknown, {off.count('invalid')} invalid."
    )
    if blind:
        bounds = sorted({search.bound_cpu_s for search in blind})
        bound = " or ".join(f"{one:.0f}" for one in bounds)
        found = [search.cpu_s for search in blind if search.is_found]
        text = f"Blind: {len(found)} of {len(blind)} pieces in at most {bound} CPU s each"
        lines.append(text + (f", median {median(found):.1f} CPU s." if found else "."))
    return "\n".join(lines)


def guided_table() -> str:
    """Return the table of pieces that were searched for blind and guided, the slowest first."""
    measured = read_measured()
    pairs = [
        (name, piece)
        for name, piece in measured.items()
        if name in DEFECTS and piece.blind.seeds > EASY_SEEDS and piece.guided.seeds
    ]
    pairs.sort(key=lambda pair: (-pair[1].blind.cpu_s, pair[0]))
    rows = [(f"`{name}`", _search(piece.blind), _search(piece.guided)) for name, piece in pairs]
    rows.append(("all", _sum([p.blind for _, p in pairs]), _sum([p.guided for _, p in pairs])))
    return table(("piece", "blind", "guided"), rows)


def _sum(searches: list[Search]) -> str:
    found = sum(search.is_found for search in searches)
    return f"{found} of {len(searches)} found, {sum(search.cpu_s for search in searches):.0f} CPU s"


def pieces_table() -> str:
    """Return the table of pieces: the bug, its source, and what finds it."""
    measured = read_measured()
    rows = [_row(defect, measured.get(name, NOT_MEASURED)) for name, defect in DEFECTS.items()]
    head = (
        "piece",
        "tier",
        "what is wrong",
        "source",
        "expected",
        "recipe",
        "blind",
        "conformance",
    )
    return table(head, rows)


def _row(defect: Defect, piece: Measured) -> tuple[str, ...]:
    return (
        f"`{defect.name}`",
        defect.tier,
        _cell(defect.title),
        _cell(defect.source),
        ", ".join(f"`{checker}`" for checker in defect.checkers),
        _search(piece.recipe),
        _search(piece.blind),
        _clauses(defect, piece.recipe),
    )


def _clauses(defect: Defect, search: Search) -> str:
    """Return the clauses that the piece names with their results, or the reason that it breaks none."""
    if not defect.conform:
        return _cell(f"none: {defect.not_by_conformance}")
    if search.broken is None:
        return ", ".join(f"{clause} (not measured)" for clause in defect.conform)
    return ", ".join(
        clause if clause in search.broken else f"{clause} (kept)" for clause in defect.conform
    )


def _search(search: Search) -> str:
    if search.is_found:
        unit = "cycles" if search.workload == "crash-store" else "seeds"
        prefix = (
            "" if search.workload == "crash-store" else f"seed {search.seed} of {search.workload}, "
        )
        return f"{prefix}{search.seeds} {unit}, {search.cpu_s:.1f} CPU s"
    return f"not in {search.seeds} seeds, {search.cpu_s:.0f} CPU s" if search.seeds else ""


def not_found_table() -> str:
    """Return the table of pieces that no campaign has shown, with the reasons."""
    rows = [
        (f"`{name}`", _cell(defect.not_found))
        for name, defect in DEFECTS.items()
        if defect.not_found
    ]
    return table(("piece", "why no campaign has shown it"), rows)


def changes_table() -> str:
    """Return the table of later changes of the pieces' expected checkers."""
    rows = [
        (f"`{name}`", _cell(change))
        for name, defect in DEFECTS.items()
        for change in defect.changes
    ]
    return table(("piece", "change of the expected checkers, and why"), rows)


def _cell(text: str) -> str:
    """Escape text for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")
