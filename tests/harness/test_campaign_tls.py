"""TLS of campaigns: the draw, the nodes that use it, and the files of real nodes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from staticfire.harness.campaign.campaign import LATER_OPTIONS, TLS_MODES, CampaignError
from staticfire.harness.campaign.file import read_options
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.clients.configuration import tls_of
from staticfire.harness.clients.lines import LineError
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.environments.real.catalogue import lacks_with_tls, missing_faults
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.targets.own_cluster import OwnCluster
from staticfire.harness.targets.own_processes import OwnProcesses
from staticfire.system_under_test.runtime.env import TlsMode


@pytest.mark.slow
def test_one_seed_in_ten_of_the_simulation_has_tls() -> None:
    drawn = [draw_campaign(seed, {}).tls for seed in range(300)]
    assert 15 <= len(drawn) - drawn.count("disabled") <= 45
    assert set(drawn) == set(TLS_MODES) == {mode.value for mode in TlsMode}
    assert "tls" in LATER_OPTIONS
    assert {draw_campaign(seed, {"gap_max_s": 5.0}).tls for seed in range(100)} == {"disabled"}
    real = {"environment": "processes"}
    assert {draw_campaign(seed, real).tls for seed in range(100)} == {"disabled"}


def test_it_changes_nothing_else_that_is_drawn() -> None:
    plain, encrypted = (draw_campaign(1, {"tls": mode}) for mode in ("disabled", "enforcing"))
    assert plain.plan == encrypted.plan
    options = read_options(encrypted.to_toml(), "the file")
    assert draw_campaign(options.pop("seed"), options) == encrypted


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tls": "on"}, "tls is 'on'; allowed: disabled, permissive, enforcing"),
        (
            {"tls": "enforcing", "environment": "processes", "client": "cpp"},
            "tls is 'enforcing'; allowed: disabled with --client cpp",
        ),
        (
            {"tls": "permissive", "environment": "processes", "target": "apache"},
            "tls is 'permissive'; allowed: disabled with --target apache",
        ),
        (
            {"replica_tls": True, "environment": "processes", "target": "apache"},
            "replica_tls is True; allowed: false with --target apache",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CampaignError, match=sentence):
        draw_campaign(1, given)


@pytest.mark.parametrize(
    ("mode", "share"), [("disabled", 0.0), ("permissive", 0.5), ("enforcing", 1)]
)
def test_none_half_or_all_nodes_speak_it(mode: str, share: float) -> None:
    cluster = OwnCluster(draw_campaign(1, {"tls": mode}), defaultdict(lambda: "10.0.0.1"))
    nodes = (*cluster.topology.servers, *cluster.topology.clients, ADMIN, PROBE)
    speaking = sum(cluster.speaks_tls(node) for node in nodes)
    assert abs(speaking - share * len(nodes)) < 1
    assert cluster.serving(nodes[0]).tls is (mode == "enforcing")


def processes(folder: Path, mode: str, **options: object) -> OwnProcesses:
    campaign = draw_campaign(1, {"tls": mode, "environment": "processes", **options})
    topology = campaign.topology()
    nodes = (*topology.servers, *topology.clients, ADMIN, PROBE)
    places = {
        node: SimpleNamespace(node=node, address="127.0.0.1", folder=str(folder / node))
        for node in nodes
    }
    return OwnProcesses(campaign, cast(Any, places), python="python", code=())


def test_real_nodes_are_given_one_certificate_that_clients_verify(tmp_path: Path) -> None:
    target = processes(tmp_path, "enforcing")
    server = target.server_launch_spec("ns-1", ["ns-1"])
    order, first_line = target.client_launch_spec("producer-1", ["ns-1"])
    assert server.argv[-5:-2] == ("--tls", "enforcing", "--tls-config")
    assert server.argv[-1] == "--use-tls"
    made = [data for path, data in server.files.items() if path.endswith("server.pem")]
    assert made == [data for path, data in order.files.items() if path.endswith("server.pem")]
    for path, data in order.files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)
    tls = tls_of(first_line)
    assert tls is not None
    context = tls.client_context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1


def test_without_tls_they_are_given_none(tmp_path: Path) -> None:
    target = processes(tmp_path, "disabled")
    assert target.server_launch_spec("ns-1", ["ns-1"]).argv[-2:] == ("--tls", "disabled")
    order, first_line = target.client_launch_spec("producer-1", ["ns-1"])
    assert not order.files
    assert tls_of(first_line) is None


def test_replicas_are_given_the_same_certificate(tmp_path: Path) -> None:
    target = processes(tmp_path, "disabled", replica_tls=True)
    broker = target.server_launch_spec("broker-a-0", ["ns-1"])
    assert broker.argv[-4:-1] == ("--tls", "disabled", "--tls-config")
    text = broker.files[broker.argv[-1]].decode()
    assert {"tls.ha.certPath", "tls.ha.keyPath", "tls.ha.trustCertPath"} <= {
        line.partition("=")[0] for line in text.splitlines()
    }
    assert not target.client_launch_spec("producer-1", ["ns-1"])[0].files


def test_a_client_that_cannot_read_its_settings_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        LineError, match="'tls_config' cannot be used: cannot read the TLS settings"
    ):
        tls_of({"tls_config": str(tmp_path / "none")})


def test_what_a_proxy_would_do_is_not_here() -> None:
    missing = missing_faults(lacks_with_tls("processes", {"disk": "none"}))
    assert "encrypted" in missing["partition-halves"]
    assert missing["power-cut"] == "none"
    without_netem = missing_faults(lacks_with_tls("namespaces", {"network.lose": "no netem"}))
    assert "encrypted" in without_netem["network-latency"]
    assert "partition-halves" not in without_netem
    assert lacks_with_tls("namespaces", {}) == {}


def test_a_campaign_with_tls_keeps_to_what_is_here() -> None:
    given = {"environment": "processes", "tls": "enforcing"}
    assert "partition-halves" in choose_faults(1, given, MachineOptions())
    assert "partition-halves" not in choose_faults(
        1, {"environment": "processes"}, MachineOptions()
    )
