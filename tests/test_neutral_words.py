"""The core says leader, follower and coordinator; where it says RocketMQ's words, one table knows, and it shrinks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.support.sources import ROOT, modules, parsed

ROCKETMQ = re.compile(
    r"name[-_ ]?server|slave|master|rocketmq|apache|commit[-_ ]?log|consume[-_ ]?queue|broker_?role|half[-_ ]?message",
    re.IGNORECASE,
)
# What every system needs. RocketMQ's own are the faults of its mechanisms, its clients, targets, admin and conformance.
NEUTRAL = (
    "checkers",
    "spark_analysis",
    "faults/model",
    "faults/plans",
    *(
        f"harness/{room}"
        for room in (
            "simulation",
            "machines",
            "campaign",
            "recording",
            "generators",
            "workloads",
            "results",
            "environments/simulated",
            "observers",
            "systems",
            "draws",
            "report",
            "run_folder",
            "histories",
            "runs",
            "continuations",
            "shrink",
            "explain",
            "exports",
            "html_report",
            "console",
            "serve",
        )
    ),
)
OTHER_MEANING = tuple(
    f"spark_analysis/engine/{name}.py" for name in ("engines", "scatter", "session")
)  # Spark's

# Module -> how often its names and texts (imports and docstrings aside) say a word of RocketMQ. Words that users and
# files know: observations, names of faults and checkers, options of campaigns, sentences of findings.
LEFT: dict[str, int] = {
    "checkers/agreement/disagreements.py": 10,
    "checkers/agreement/short_logs.py": 9,
    "checkers/anomalies/availability.py": 1,
    "checkers/anomalies/features.py": 1,
    "checkers/anomalies/log.py": 1,
    "checkers/anomalies/white_box.py": 2,
    "checkers/derived/follower_lag.py": 1,
    "checkers/derived/followers_behind.py": 2,
    "checkers/features/refusals.py": 2,
    "checkers/guarantees/excuses/locks.py": 1,
    "checkers/guarantees/excuses/log.py": 1,
    "checkers/guarantees/excuses/sends.py": 4,
    "checkers/guarantees/excuses/waits.py": 2,
    "checkers/guarantees/fault_effects.py": 10,
    "checkers/guarantees/former_names.py": 5,
    "checkers/guarantees/promise_table.py": 1,
    "checkers/guarantees/promises.py": 3,
    "checkers/measures/coverage_marks.py": 13,
    "checkers/model/building/column_builder.py": 2,
    "checkers/model/history.py": 4,
    "checkers/op_kinds/consumer.py": 4,
    "checkers/op_kinds/message_fields.py": 1,
    "checkers/op_kinds/producer.py": 3,
    "checkers/verdicts/compose.py": 1,
    "checkers/white_box/replicas.py": 12,
    "checkers/white_box/resources.py": 1,
    "checkers/white_box/route_contents.py": 1,
    "checkers/white_box/routes.py": 4,
    "checkers/white_box/send_status.py": 1,
    "faults/plans/catalogue.py": 6,
    "harness/campaign/campaign.py": 5,
    "harness/campaign/options.py": 7,
    "harness/console/brief.py": 8,
    "harness/console/console.py": 4,
    "harness/console/external_lines.py": 5,
    "harness/explain/copies.py": 1,
    "harness/exports/otlp.py": 7,
    "harness/html_report/issue.py": 1,
    "harness/machines/cpp_library.py": 1,
    "harness/machines/options.py": 3,
    "harness/observers/probe.py": 1,
    "harness/shrink/outputs.py": 1,
    "harness/systems/registry.py": 3,
    "harness/workloads/bulk.py": 1,
    "harness/workloads/filtered.py": 2,
    "spark_analysis/synthesis/injected_contents.py": 2,
    "spark_analysis/synthesis/injected_gaps.py": 1,
    "spark_analysis/synthesis/injected_observations.py": 13,
}


def words_of(text: str) -> Iterator[str]:
    """Each name and text of a module with one of the words."""
    if not ROCKETMQ.search(text):
        return  # without the cost of a syntax tree
    sentences: set[int] = set()
    for node in ast.walk(parsed(text)):  # a statement comes before what it holds
        if isinstance(node, ast.Expr):
            sentences.add(id(node.value))
        for name in names_in(node, sentences):
            yield from (name for _ in ROCKETMQ.findall(name))


def names_in(node: ast.AST, sentences: set[int]) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Constant(value=str(name)) if id(node) not in sentences:
            yield name


def counted() -> dict[str, Counter[str]]:
    found = {
        path.relative_to(ROOT).as_posix(): Counter(words_of(path.read_text(encoding="utf-8")))
        for folder in NEUTRAL
        for path in modules(folder)
    }
    return {name: words for name, words in found.items() if words and name not in OTHER_MEANING}


def test_the_core_says_no_more_of_rocketmq_than_the_table() -> None:
    found = counted()
    wrong = {
        name: f"{words.total()} times, {LEFT.get(name, 0)} in the table: {', '.join(words)}"
        for name, words in found.items()
        if words.total() != LEFT.get(name, 0)
    }
    assert wrong == {}
    assert sorted(LEFT.keys() - found.keys()) == []


def test_a_word_is_found_in_names_and_texts_alone() -> None:
    text = '''"""A master."""
def slave(commit_log: str, /) -> None:
    """Another one."""
    print(f"a name server {commit_log}", masters=1)  # a slave
'''
    assert sorted(words_of(text)) == [
        "a name server ",
        "commit_log",
        "commit_log",
        "masters",
        "slave",
    ]


def test_no_module_of_the_core_is_named_after_a_mechanism_of_rocketmq() -> None:
    names = [path.relative_to(ROOT).as_posix() for folder in NEUTRAL for path in modules(folder)]
    assert [name for name in names if ROCKETMQ.search(name)] == ["checkers/log/commit_log.py"]
