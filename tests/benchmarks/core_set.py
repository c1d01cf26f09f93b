"""One way to ask the core set: `python -m tests.benchmarks.core_set in-process|local[N]|duckdb FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from staticfire.checkers.verdicts.compose import CORE
from staticfire.spark_analysis.engine.engines import Engine, InProcess, OnSpark
from staticfire.spark_analysis.engine.session import Settings, spark_session
from staticfire.spark_analysis.results.analysis import laid_out
from staticfire.spark_analysis.results.verdicts import CHECKERS, judge_runs
from staticfire.spark_analysis.runs.inputs import find_runs

CORE_CHECKERS = [checker for checker in CHECKERS if checker.kernel in CORE]
# Counts that a plain query can answer, too.
COUNTED = ("acked", "deliveries", "lost", "phantom", "inconsistent_offsets", "out_of_order")


def ask(engine: Engine, folder: Path) -> dict[str, int]:
    runs = laid_out(find_runs([folder]), engine)
    [verdict] = judge_runs(runs, engine, CORE_CHECKERS)
    counts: dict[str, int] = {}
    for of in verdict.verdicts:
        counts.update(of.counts)
    return {name: counts.get(name, 0) for name in COUNTED}


def ask_duckdb(folder: Path) -> dict[str, int]:
    """The same from the raw files: grouped by message, by place, and in windows by queue and group."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("set memory_limit = '5GB'")
    connection.execute(
        f"create view t as select * from read_parquet('{folder}/raw.parquet/message_events/*.parquet')"
    )
    by_message = """
        with m as (
            select message, count(*) filter (kind = 0) sent, max(outcome) filter (kind = 0) worst,
                min(outcome) filter (kind = 0) best, count(*) filter (kind = 1) given,
                min(queue_offset) filter (kind = 0) acked_at, min(queue) filter (kind = 0) acked_in,
                count(distinct "group") filter (kind = 1 and outcome = 0) groups,
                count(distinct queue_offset * 10000 + queue) filter (kind = 1) places
            from t where kind < 2 group by message)
        select sum((best = 0)::int), sum(given), sum((sent = 1 and best = 0 and given = 0)::int),
            sum((sent = 0 and given > 0 and places = 1)::int) from m"""
    acked, deliveries, lost, phantom = connection.execute(by_message).fetchall()[0]
    by_place = """
        select count(*) from (
            select 1 from t where kind < 2 and queue >= 0 and queue_offset >= 0
            group by queue, queue_offset having min(message) <> max(message))"""
    [[inconsistent]] = connection.execute(by_place).fetchall()
    in_turn = """
        with firsts as (
            select queue, "group", process, queue_offset, min(invoke_index) called from t
            where kind = 1 group by all),
        w as (
            select queue_offset, max(queue_offset) over (
                partition by queue, "group", process order by called, queue_offset
                rows between unbounded preceding and 1 preceding) highest,
            lag(queue_offset) over (
                partition by queue, "group", process order by called, queue_offset) before
            from firsts)
        select sum((queue_offset < highest)::int), sum((queue_offset > before + 1)::int) from w"""
    [[late, _skips]] = connection.execute(in_turn).fetchall()
    offsets = """
        select sum((queue_offset <= highest)::int) from (
            select queue_offset, max(queue_offset) over (
                partition by queue order by op_index
                rows between unbounded preceding and 1 preceding) highest
            from t where kind = 0 and outcome = 0)"""
    connection.execute(offsets).fetchall()
    found = (acked, deliveries, lost, phantom, inconsistent, late)
    return {name: int(count or 0) for name, count in zip(COUNTED, found, strict=True)}


def main(where: str, folder: Path) -> None:
    if where == "duckdb":
        counts = ask_duckdb(folder)
    elif where == "in-process":
        counts = ask(InProcess(), folder)
    else:
        with spark_session(Settings(master=where, driver_memory_mb=512)) as spark:
            counts = ask(OnSpark(spark), folder)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
