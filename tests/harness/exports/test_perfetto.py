"""Perfetto traces, read by its own schema: tracks, nesting, arrows, counters and faults."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from staticfire.harness.cli import status_of
from staticfire.harness.exports import perfetto_file
from tests.harness.exports.conftest import Recorded, rewrite

NASTY = "<script>alert(1)</script>\x1b[31m\n=cmd()"


def export(folder: Path, out: Path, *options: str) -> Any:
    assert status_of(["export", str(folder), "--perfetto", str(out), *options]) == 0
    return Trace.FromString(out.read_bytes())


class Tracks:
    """Packets as Perfetto puts them together: tracks by uuid, events by time."""

    def __init__(self, trace: Any) -> None:
        self.described = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in trace.packet
            if packet.HasField("track_descriptor")
        }
        self.events = sorted(
            (packet for packet in trace.packet if packet.HasField("track_event")),
            key=lambda packet: packet.timestamp,
        )

    def path(self, uuid: int) -> tuple[str, str]:
        """Names of the process and of the track."""
        track = self.described[uuid]
        return self.described[track.parent_uuid].process.process_name, track.name

    def of(self, process: str, name: str) -> list[Any]:
        """Events that begin on a track."""
        return [
            packet
            for packet in self.events
            if packet.track_event.type != TrackEvent.TYPE_SLICE_END
            and self.path(packet.track_event.track_uuid) == (process, name)
        ]


@pytest.fixture(scope="module")
def tracks(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Tracks:
    return Tracks(export(recorded.folder, tmp_path_factory.mktemp("out") / "run.pftrace"))


def test_every_event_has_a_track_of_a_process(tracks: Tracks) -> None:
    assert tracks.events
    for packet in tracks.events:
        assert packet.trusted_packet_sequence_id
        assert all(tracks.path(packet.track_event.track_uuid))
    pids = [one.process.pid for one in tracks.described.values() if one.HasField("process")]
    assert len(pids) == len(set(pids))


def test_slices_of_a_track_do_not_overlap(tracks: Tracks) -> None:
    is_open: defaultdict[int, int] = defaultdict(int)
    for packet in tracks.events:
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            is_open[event.track_uuid] += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            is_open[event.track_uuid] -= 1
        assert is_open[event.track_uuid] in (0, 1)
    assert not any(is_open.values())


def test_nodes_and_clients_have_tracks(recorded: Recorded, tracks: Tracks) -> None:
    paths = {tracks.path(packet.track_event.track_uuid) for packet in tracks.events}
    clients = {op["node"] for op in recorded.ops if op["f"] == "send"}
    assert {(node, "sends") for node in clients} <= paths
    assert {
        ("broker-a-0", "store"),
        ("broker-a-0", "flush"),
        ("broker-a-1", "replication"),
        ("broker-a-0", "log"),
        ("ns-1", "log"),
        ("consumer-1", "listener of staticfire-group"),
        ("run", "acknowledged"),
        ("run", "lag of staticfire-group"),
    } <= paths


def test_an_arrow_goes_from_the_send_of_a_message_to_each_delivery(
    recorded: Recorded, tracks: Tracks
) -> None:
    points: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    for packet in tracks.events:
        track = tracks.path(packet.track_event.track_uuid)[1]
        for flow in packet.track_event.flow_ids:
            points[flow].append((track, packet.track_event.name.rpartition(" ")[2]))
    delivered = recorded.delivered()
    arrows = [one for one in points.values() if len(one) > 1 and one[0][0] == "sends"]
    by_key = {one[0][1]: one for one in arrows}
    for key in recorded.sent("ok") & {key for _, key in delivered}:
        tracks_of_key = [track for track, _ in by_key[key]]
        assert tracks_of_key[0] == "sends"
        assert "store" in tracks_of_key
        assert tracks_of_key.count("listener of staticfire-group") == sum(
            one == key for _, one in delivered
        )


def test_faults_are_bands_on_their_own_track_and_on_the_nodes_they_struck(
    recorded: Recorded, tracks: Tracks
) -> None:
    struck = {(one["kind"], one["struck_ns"]) for one in recorded.faults if one["struck_ns"]}
    assert struck
    shown = tracks.of("faults", "faults")
    assert {(one.track_event.name.split(" (")[0], one.timestamp) for one in shown} == struck
    for fault in recorded.faults:
        for node in fault["targets"]:
            assert fault["struck_ns"] in [one.timestamp for one in tracks.of(node, "faults")]


def test_counters_end_where_the_history_does(recorded: Recorded, tracks: Tracks) -> None:
    unseen = tracks.of("run", "unseen")[-1].track_event.double_counter_value
    seen = {key for _, key in recorded.delivered()}
    assert unseen == len(recorded.sent("ok") - seen)
    acknowledged = tracks.of("run", "acknowledged")
    total = sum(one.track_event.double_counter_value for one in acknowledged)
    assert total == len(recorded.sent("ok"))
    delivered = tracks.of("run", "delivered to staticfire-group")
    assert sum(one.track_event.double_counter_value for one in delivered) == len(
        recorded.delivered()
    )


def test_a_key_keeps_one_message(recorded: Recorded, tmp_path: Path) -> None:
    key = recorded.delivered()[5][1]
    tracks = Tracks(export(recorded.folder, tmp_path / "one", "--key", key))
    names = {
        packet.track_event.name
        for packet in tracks.events
        if packet.track_event.categories[:1] in (["send"], ["delivery"])
    }
    assert {name.split(" and ")[0] for name in names} == {key}


def test_a_window_keeps_what_begins_in_it(recorded: Recorded, tmp_path: Path) -> None:
    tracks = Tracks(export(recorded.folder, tmp_path / "part", "--from", "2", "--to", "3.5"))
    began = [
        packet.timestamp
        for packet in tracks.events
        if packet.track_event.categories[:1] in (["send"], ["delivery"])
    ]
    expected = [
        op["time_ns"]
        for op in recorded.ops
        if op["f"] in ("send", "consume")
        and op["type"] == "invoke"
        and 2e9 <= op["time_ns"] < 3.5e9
    ]
    assert began == sorted(expected)


def test_names_may_hold_anything(damaged: Path, tmp_path: Path) -> None:
    rewrite(damaged, "producer-1", NASTY)
    tracks = Tracks(export(damaged, tmp_path / "nasty"))
    assert NASTY in {tracks.path(one.track_event.track_uuid)[0] for one in tracks.events}


def test_packets_are_written_as_they_come(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = export(recorded.folder, tmp_path / "whole")
    monkeypatch.setattr(perfetto_file, "PACKETS_MAX", 7)
    assert export(recorded.folder, tmp_path / "in parts") == whole
