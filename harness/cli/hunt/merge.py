"""`staticfire hunt merge`: combines rows of several hunts, machines, days and commits in one file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from staticfire.harness.cli.hunt.row_files import encoded, read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.cli.hunt.summary import answers_text, causes_of
from staticfire.harness.cli.status import EXIT_VALID, HarnessError, of_a_file
from staticfire.harness.report.quantities import with_noun
from staticfire.harness.truncated_repr import printable

Key = tuple[str, str, str, int]  # commit, options, workload, seed


@click.command(short_help="Combine the rows of several hunts.")
@click.argument(
    "rows",
    metavar="ROWS...",
    nargs=-1,
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
)
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for all rows: JSON lines, or Parquet if the name ends with .parquet.",
)
def merge(rows: tuple[Path, ...], out: Path) -> int:
    """Write the rows of several hunts to one file, and summarize them by commit.

    \b
    Example:
      staticfire hunt merge monday.jsonl tuesday.parquet --out week.parquet

    ROWS are files from --out of `staticfire hunt`, or the .part file of an interrupted hunt. The command keeps one row
    for each seed, commit and choice of options, and prefers a row of a completed run to one of a seed that failed. If
    two runs of a simulated seed at one commit have different digests, it writes everything and ends with an error.

    Exit status: 0 merged, 254 bad arguments, 255 harness error.
    """
    found, differing = merged((path, _read(path)) for path in rows)
    try:
        new = out.with_name(out.name + ".new")
        new.write_bytes(encoded(found, out))
        new.replace(out)
    except OSError as error:
        raise of_a_file(error, out) from error
    print("\n".join(map(printable, _lines(found, sum(1 for _ in rows)))))
    if differing:
        raise HarnessError("; ".join(differing[:3]))
    return EXIT_VALID


def _read(path: Path) -> list[SeedResult]:
    """Raises BadInput, HarnessError."""
    try:
        return read_rows(path)
    except OSError as error:
        raise of_a_file(error, path) from error


def merged(
    files: Iterable[tuple[Path, Sequence[SeedResult]]],
) -> tuple[list[SeedResult], list[str]]:
    """Return a row for each seed, commit and choice of options, and a sentence for each seed with two digests."""
    kept: dict[Key, tuple[Path, SeedResult]] = {}
    differing = []
    for path, results in files:
        for result in results:
            key = (result.commit, result.options, result.workload, result.seed)
            before = kept.get(key)
            if before is None or (before[1].failed and not result.failed):
                kept[key] = path, result
            elif _differ(before[1], result):
                differing.append(
                    f"seed {result.seed} of {result.workload} at commit {result.commit} has digest "
                    f"{before[1].digest} in {before[0]} and {result.digest} in {path}"
                )
    return [result for _, result in kept.values()], differing


def _differ(one: SeedResult, other: SeedResult) -> bool:
    """Whether two results contradict each other: a simulated seed of one clean commit has one digest."""
    is_certain = one.commit and not one.commit.endswith("-dirty") and not other.failed
    return bool(is_certain) and one.environment == "simulation" and one.digest != other.digest


def _lines(results: Sequence[SeedResult], files: int) -> list[str]:
    commits = defaultdict[str, list[SeedResult]](list)
    for result in results:
        commits[result.commit].append(result)
    lines = [
        f"merged    {with_noun(files, 'file')}: {len(results)} seeds of {len(commits)} commits"
    ]
    for commit, found in sorted(commits.items()):
        failed = sum(result.failed for result in found)
        cpu_s = sum(result.cpu_s for result in found)
        lines.append(
            f"commit    {commit or 'unknown'}: {len(found)} seeds: {answers_text(found)}, {failed} failed; "
            f"{cpu_s:.0f} CPU s"
        )
        for cause, seeds in causes_of(found).items():
            count = with_noun(len(seeds), "seed")
            first = f"seed {seeds[0].seed} of {seeds[0].workload}"
            lines.append(f"cause     {cause or 'unnamed'} in {count}, first {first}")
    return lines
