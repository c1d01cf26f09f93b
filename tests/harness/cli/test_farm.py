"""A farm: its schedule, canaries, budgets, shrunk failures and page; it resumes after a stop."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from staticfire.harness.cli.farm import command
from staticfire.harness.cli.farm.command import Clock, run_farm
from staticfire.harness.cli.farm.hands import Ended, Processes, slug
from staticfire.harness.cli.farm.ledger import Ledger, Round
from staticfire.harness.cli.farm.page import page
from staticfire.harness.cli.farm.rounds import Rounds
from staticfire.harness.cli.farm.schedule import Job, Settings, Wait, next_step
from staticfire.harness.cli.hunt.row_files import encoded
from staticfire.harness.cli.status import BadInput, HarnessError
from tests.harness.cli.conftest import Said
from tests.harness.cli.test_hunt import seed_result

DAY_S = 86_400
NOON_S = 20_000.5 * DAY_S
SETTINGS = Settings(
    weights={"queue": 3.0, "retry": 1.0},
    canaries=("bug",),
    cpu_hours=1.0,
    seeds=4,
    canary_seeds=10,
)


@dataclass
class ScriptedHands:
    """Commands that end at once; some seeds are invalid."""

    invalid: dict[int, str] = field(default_factory=dict)
    finds_canaries: bool = True
    cannot_start: bool = False  # a broken commit: Python ends with the status of an invalid run
    commit: str = "abc"
    cpu_s: float = 100.0
    ends_after: int = 1000  # commands; then Ctrl-C
    commands: list[tuple[str, ...]] = field(default_factory=list)

    def newest_commit(self) -> str:
        return self.commit

    def staticfire(self, *arguments: object) -> Ended:
        words = tuple(map(str, arguments))
        self.commands.append(words)
        if len(self.commands) > self.ends_after:
            raise KeyboardInterrupt
        given = dict(pairwise(words))
        if words[0] == "run":
            (Path(given["--runs"]) / "a-run").mkdir(parents=True)
            return Ended(1, self.cpu_s, "")
        if words[0] == "shrink":
            (Path(given["--out"])).mkdir(parents=True)
            (Path(given["--out"]) / "shrunk.toml").write_text("[campaign]\n")
            return Ended(0, self.cpu_s, "")
        if "--defect" in words:
            if self.cannot_start:
                return Ended(1, 0.1, "ImportError: no module of that name")
            valid = not self.finds_canaries
            Path(given["--out"]).write_bytes(
                encoded([seed_result(3, valid, "queue")], Path(given["--out"]))
            )
            return Ended(int(self.finds_canaries), self.cpu_s, "")
        first, last = map(int, given["--seeds"].split("-"))
        results = [
            replace(
                seed_result(seed, seed not in self.invalid, given["--workload"]),
                fingerprint=self.invalid.get(seed, ""),
                coverage={"mark": seed + 1},
            )
            for seed in range(first, last + 1)
        ]
        out = Path(given["--out"])
        out.write_bytes(encoded(results, out))
        return Ended(0, self.cpu_s, "")


def farm(
    folder: Path, hands: ScriptedHands, *, until_spent: bool = True, clock: Clock | None = None
) -> int:
    rounds = Rounds(folder=folder, hands=hands, hunt_options=("--jobs", "2"), shrink_s=60.0)
    clock = clock or Clock(lambda: NOON_S, never)
    return run_farm(folder, SETTINGS, rounds, until_spent=until_spent, clock=clock)


def never(_seconds: float) -> None:
    raise AssertionError("the farm slept")


def kinds(folder: Path) -> list[tuple[str, str, int]]:
    return [(one.kind, one.name, one.first) for one in Ledger(folder / "ledger.jsonl").rounds]


def test_canaries_come_first_and_workloads_share_the_budget_by_weight(tmp_path: Path) -> None:
    hands = ScriptedHands(cpu_s=300.0)
    assert farm(tmp_path, hands) == 0
    rounds = kinds(tmp_path)
    assert rounds[0] == ("canary", "bug", 0)
    hunts = rounds[1:]
    assert len(rounds) == 12  # an hour
    assert [name for _, name, _ in hunts].count("queue") == 8
    assert [first for _, name, first in hunts if name == "retry"] == [4, 20, 36]


def test_a_new_cause_is_shrunk_once_and_kept(tmp_path: Path) -> None:
    hands = ScriptedHands(invalid={1: "loss (lost)", 2: "loss (lost)", 6: "duplicate"})
    assert farm(tmp_path, hands) == 1
    shrinks = [name for kind, name, _ in kinds(tmp_path) if kind == "shrink"]
    assert shrinks == ["loss (lost)", "duplicate"]
    run = next(words for words in hands.commands if words[0] == "run")
    assert run[:5] == ("run", "--workload", "queue", "--seed", "1")
    kept = tmp_path / "regressions"
    assert {path.name for path in kept.iterdir()} == {
        "README.md",
        "loss-lost.toml",
        "duplicate.toml",
    }
    assert (
        "| `loss-lost` | loss (lost) | workload queue, seed 1 | abc |"
        in (kept / "README.md").read_text()
    )


def test_a_missed_canary_breaks_the_farm(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"^the farm is broken: seeds 0-9 did not find .* bug$"):
        farm(tmp_path, ScriptedHands(finds_canaries=False))
    html = (tmp_path / "index.html").read_text()
    assert "<title>Broken: Staticfire farm</title>" in html
    assert "The farm is broken." in html
    assert farm(tmp_path, ScriptedHands()) == 0  # other seeds find it
    assert kinds(tmp_path)[:2] == [("canary", "bug", 0), ("canary", "bug", 10)]
    assert "broken" not in (tmp_path / "index.html").read_text().lower()


def test_a_command_that_cannot_start_has_found_no_canary(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"did not find the planted bug bug: ImportError"):
        farm(tmp_path, ScriptedHands(cannot_start=True))


def test_a_new_commit_or_day_asks_the_canaries_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(round_of("canary", "bug", is_found=True))
    canary = Job("canary", "bug", 10, 19)
    assert next_step(SETTINGS, ledger, "abc", NOON_S) == Job("hunt", "queue", 0, 3)
    assert next_step(SETTINGS, ledger, "new", NOON_S) == canary
    assert next_step(SETTINGS, ledger, "abc", NOON_S + DAY_S) == canary


def test_a_spent_budget_waits_for_the_next_day(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(round_of("hunt", "queue", cpu_s=3600.0))
    assert next_step(SETTINGS, ledger, "abc", NOON_S) == Wait(DAY_S / 2)
    assert next_step(SETTINGS, ledger, "abc", NOON_S + DAY_S) == Job("canary", "bug", 0, 9)


def test_it_goes_on_the_next_day(tmp_path: Path) -> None:
    now_s = [NOON_S]
    hands = ScriptedHands(cpu_s=1800.0, ends_after=3)

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    assert farm(tmp_path, hands, until_spent=False, clock=Clock(lambda: now_s[0], sleep)) == 0
    days = [one.day for one in Ledger(tmp_path / "ledger.jsonl").rounds]
    assert days == ["2024-10-04", "2024-10-04", "2024-10-05"]


def test_an_interrupted_round_is_done_again(tmp_path: Path) -> None:
    first = ScriptedHands(ends_after=2)
    assert farm(tmp_path, first) == 0
    second = ScriptedHands(ends_after=1)
    farm(tmp_path, second)
    assert second.commands[0] == first.commands[2]
    assert "--resume" in second.commands[0]


def test_rounds_without_a_seed_end_the_farm(tmp_path: Path) -> None:
    class Failing(ScriptedHands):
        def staticfire(self, *arguments: object) -> Ended:
            if "--defect" in arguments:
                return super().staticfire(*arguments)
            return Ended(255, 0.1, "staticfire: no space")

    with pytest.raises(HarnessError, match="3 rounds in a row ran no seed: staticfire: no space"):
        farm(tmp_path, Failing())


def round_of(kind: str, name: str, *, is_found: bool = False, cpu_s: float = 1.0) -> Round:
    return Round(
        kind=kind,
        name=name,
        commit="abc",
        first=0,
        last=3,
        started_s=int(NOON_S),
        cpu_s=cpu_s,
        is_found=is_found,
    )


def test_a_torn_line_of_the_ledger_is_left_out_and_another_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path).add(round_of("hunt", "queue"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    ledger = Ledger(path)
    ledger.add(round_of("hunt", "retry"))
    assert [one.name for one in Ledger(path).rounds] == ["queue", "retry"]
    path.write_bytes(b'{"kind": 1}\n')
    with pytest.raises(BadInput, match="line 1 is no round of a farm"):
        Ledger(path)


def test_the_page_shows_everything_and_loads_nothing(tmp_path: Path) -> None:
    farm(tmp_path, ScriptedHands(invalid={1: "loss <script>"}))
    html = (tmp_path / "index.html").read_text()
    assert "loss &lt;script&gt;" in html
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "<code>staticfire run --workload queue --seed 1</code>" in html
    for text in ("Behaviours seen over the CPU hours", "Canaries", "Commits", "abc"):
        assert text in html


def test_a_page_without_rounds(tmp_path: Path) -> None:
    assert "0 seeds, 0.0 CPU hours" in page(Ledger(tmp_path / "none"), SETTINGS, NOON_S, ())


def test_the_name_of_a_regression_is_that_of_a_file() -> None:
    assert slug("loss (lost) after kill of ../a") == "loss-lost-after-kill-of-a"
    assert slug("()") == "unnamed"


def test_the_code_is_the_newest_commit_of_the_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"

    def git(*words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(checkout), *author, *words], check=True)

    checkout.mkdir()
    git("init", "--quiet")
    commits = []
    hands = Processes(tmp_path / "farm", checkout)
    for text in ("one", "two"):
        (checkout / "file").write_text(text)
        git("add", "file")
        git("commit", "--quiet", "--message", text)
        (checkout / "file").write_text("not committed")
        commits.append(hands.newest_commit())
        assert (tmp_path / "farm" / "code" / "file").read_text() == text
    assert len(set(commits)) == 2
    assert Processes(tmp_path / "other", tmp_path).newest_commit() == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workload", "quuee"), "--workload is 'quuee'; did you mean queue?"),
        (("--workload", "queue=0"), "--workload is 'queue=0'; allowed: a weight above 0"),
        (("--workload", "queue=much"), "allowed: a weight above 0 and up to 1000"),
        (("--canary", "no-such-bug"), "no-such-bug"),
        (("--cpu-hours", "nan"), "--cpu-hours is nan; allowed: more than 0"),
        (("--shrink-budget", "0"), "allowed: more than 0"),
        (("--seed-limit", "-1"), "--seed-limit is -1; allowed"),
    ],
)
def test_wrong_options_are_one_sentence(
    options: tuple[str, ...], words: str, staticfire: Callable[..., Said], tmp_path: Path
) -> None:
    said = staticfire("farm", tmp_path / "farm", *options)
    assert said.status == 254
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_folder_has_one_farm(staticfire: Callable[..., Said], tmp_path: Path) -> None:
    with command._alone(tmp_path):
        said = staticfire("farm", tmp_path)
    assert said.status == 254
    assert "belongs to a running farm; choose another" in said.err


@pytest.mark.slow
def test_a_real_farm_finds_its_canary_and_spends_its_budget(
    staticfire: Callable[..., Said], tmp_path: Path
) -> None:
    chosen = ("--workload", "queue", "--canary", "held-pull-misses-its-message")
    options = ("--cpu-hours", "0.003", "--until-spent", "--round", 2, "--jobs", 2)
    said = staticfire("farm", tmp_path / "farm", *chosen, *options)
    assert said.status == 0, said.out + said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("canary    held-pull-misses-its-message, seeds 0-19: found;")
    assert lines[1].startswith("hunt      queue, seeds 0-1: 2 valid;")
