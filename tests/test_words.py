"""One word for one thing: identifiers that gave way to the field's words do not come back."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.support.sources import ROOT, modules

TOPS = ("checkers", "faults", "harness", "spark_analysis", "system_under_test")

# Former identifier -> the word that took its place.
FORMER = {
    "Touches": "MessageEvents",
    "touches": "message_events",
    "TOUCHES": "MESSAGE_EVENTS",
    "stretches": "ranges",
    "TouchBuilder": "ColumnBuilder",
    "SendTouch": "SendEvent",
    "DeliveryTouch": "DeliveryEvent",
    "Place": "Machine",
    "Order": "LaunchSpec",
    "Serving": "HealthCheck",
    "Fleet": "MachineProvider",
    "FleetOptions": "MachineOptions",
    "PlaceIndex": "PositionIndex",
    "Placements": "MessagePositions",
    "SettledPlaces": "SettledPositions",
    "Stretch": "MessageRange",
    "StretchTouches": "RangeEvents",
    "FirstLook": "ScreeningPass",
    "SecondLook": "ExactPass",
    "Innocent": "ScreenedCounts",
    "suspects": "candidates",
    "suspects_of": "candidates_of",
    "Suspicion": "Candidates",
    "innocent_of": "screened_out",
    "make_fleet": "make_provider",
    "FleetOptionError": "MachineOptionError",
    "read_portion": "read_unit",
    "situation": "context",
    "StoragePiece": "StorageChunk",
    "CoverageInPieces": "CoverageInChunks",
    "PollsInPieces": "PollsInChunks",
    "StorageInPieces": "StorageInChunks",
    "RawPiece": "RawChunk",
    "Portion": "WorkUnit",
    "Strike": "FaultParams",
    "Situation": "ClusterContext",
    "Striking": "LinkFaultControl",
    "robbed": "nodes_with_possible_loss",
    "Floors": "MinimumEvidence",
    "is_foreign": "is_external",
    "ForeignCluster": "ExternalCluster",
    "somebodys_cluster": "external_cluster",
    "Shape": "WorkloadProfile",
    "Story": "Scenario",
    "StorySet": "ScenarioSet",
    "Told": "Reported",
    "Membership": "ConsumerSpec",
    "Book": "AddressMap",
    "Gate": "Listener",
    "Tunnel": "ProxiedConnection",
    "Neighbours": "Peers",
    "Diversion": "TopicRedirection",
    "LogProgress": "AppendPipeline",
    "WaitingSends": "PendingSends",
    "CAREFUL_STORE": "HARDENED_STORE",
    "HeedlessHealth": "FaithfulHealth",
    "PlainReceiver": "FaithfulReceiver",
    "whatever_comes": "sync_ignoring_errors",
    "the_truth": "reported_status",
    "regardless": "force_regardless_of_consumption",
    "first_look": "screening_pass",
    "second_look": "exact_pass",
    "look_at_polls": "scan_polls",
    "look_at_storage": "scan_storage",
    "look_at_store_times": "scan_store_times",
    "look_at_consumption": "scan_consumption",
    "look_at_coverage": "scan_coverage",
    "look_at_waits": "scan_waits",
    "looks_below": "reads_below",
    "PIECES": "CHUNK_DIVISOR",
    "check_pieces": "check_chunks",
    "survey_part": "profile_part",
    "Surveying": "ProfileTask",
    "Turns": "OwnershipRuns",
    "turns_of": "ownership_runs_of",
    "PollBorder": "PollCutPoint",
    "clean_borders": "clean_cut_points",
    "suspect": "candidate",
    "TOUCH_WIDTH": "EVENT_WIDTH",
    "TOUCH_FIELDS": "EVENT_FIELDS",
    "touch_order": "event_order",
    "send_touches": "send_events",
    "delivery_touches": "delivery_events",
    "Planted": "Injected",
    "StoryPlant": "ScenarioInjection",
    "STORIES": "SCENARIOS",
    "PLANTS": "INJECTIONS",
    "_find_sites": "_find_points",
    "tell_of_run": "expect_of_run",
    "COMMON_DOOR": "COMMON_FRONTEND",
    "_add_gate": "_add_listener",
    "TunnelOwner": "ConnectionOwner",
    "HaDoor": "HaAdmission",
    "HaGate": "PendingHandshake",
    "Door": "ClientProxy",
    "_book": "_addresses",
    "_diversion": "_redirection",
    "diversion": "redirection",
    "_told": "_reported",
    "untold": "unreported",
    "is_told": "is_reported",
    "_Told": "_Reported",
    "TOLD_S": "NOTIFY_S",
    "allocate_as_told": "allocate_configured",
    "LogStretch": "LogRange",
    "read_stretch": "read_log_range",
    "_strike_sent_by": "_inject_sent_by",
    "look_interval_s": "check_interval_s",
    "CAREFUL": "HARDENED_TRANSACTIONS",
    "AS_ROCKETMQ": "FAITHFUL_TRANSACTIONS",
    "foreign_hunt_lines": "external_hunt_lines",
    "told": "reported",
    "_stretches": "_ranges",
    "LOOK_INTERVAL_S": "CHECK_INTERVAL_S",
    "LOOK_S": "CHECK_INTERVAL_S",
}
OTHER_MEANING = {  # an identifier with a meaning of its own in this folder
    "Shape": ("faults/linux/network/traffic.py",),  # of traffic, as tc says
}

# "place" said queue offset, log position, index, line and folder alike.
PLACE = re.compile(r"\b_?places?\b")


def identifiers(text: str) -> set[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def former_words(path: Path, text: str) -> list[str]:
    """Each use of a former identifier, with its line and the word to use."""
    if FORMER.keys().isdisjoint(re.findall(r"\w+", text)):
        return []  # without the cost of tokens
    name = path.relative_to(ROOT).as_posix()
    return [
        f"{name}:{token.start[0]} says {token.string}; the word is {FORMER[token.string]}"
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME
        and token.string in FORMER
        and name not in OTHER_MEANING.get(token.string, ())
    ]


@pytest.mark.parametrize("top", TOPS)
def test_former_words_do_not_come_back(top: str) -> None:
    found = [line for path in modules(top) for line in former_words(path, path.read_text())]
    assert found == []


def test_a_place_says_which_place_it_is() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for top in TOPS
        for path in modules(top)
        if PLACE.search(text := path.read_text(encoding="utf-8"))
        and any(map(PLACE.fullmatch, identifiers(text)))
    ]
    assert found == []


def test_a_former_word_is_named_with_its_line() -> None:
    path = ROOT / "checkers" / "example.py"
    assert former_words(path, "x = 1\ny: Touches\n") == [
        "checkers/example.py:2 says Touches; the word is MessageEvents"
    ]
