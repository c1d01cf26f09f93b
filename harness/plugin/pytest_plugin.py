"""The pytest plugin, found through the entry point `pytest11`: clusters, faults, campaigns and the conformance suite.

* `rocketmq_cluster`, `rocketmq_cluster_options`: a cluster for all tests of a session.
* `rocketmq_faults`: breaks the nodes of that cluster, and heals everything at the end of the test.
* `rocketmq_links`: a proxy in front of that cluster, which breaks links of its clients.
* `@pytest.mark.campaign(...)`: the test is a fault campaign, and fails unless its verdict is valid. It takes every
  option of `staticfire run`; the campaign runs in the simulation unless `environment` names another environment.
* `pytest --pyargs staticfire.harness.conformance --rocketmq-name-server HOST:PORT`: the conformance suite, a
  test a case.

The plugin imports the rest of Staticfire only when a test uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from staticfire.harness.conformance.sites.site import Site
    from staticfire.harness.local_cluster import LocalCluster
    from staticfire.harness.local_cluster.faults import ClusterFaults
    from staticfire.harness.local_cluster.links import ClusterLinks
    from staticfire.harness.results.run_result import RunResult


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rocketmq", "RocketMQ, by Staticfire")
    group.addoption(
        "--rocketmq-name-server",
        metavar="HOST:PORT[,HOST:PORT...]",
        help="Name server of the cluster that the suite judges. Default: our own cluster in the simulation.",
    )
    group.addoption(
        "--rocketmq-mode",
        default="hardened",
        choices=("hardened", "faithful"),
        help="Mode of our own cluster.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "campaign(seed=0, campaign=NAME, **options): run a fault campaign with the options of `staticfire run` or of a "
        "campaign file; the test fails if it is invalid, or if it proves nothing",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """End the session for an unknown option of a marker, as for an unknown option of the command line."""
    marked = [(item, marker) for item in items if (marker := item.get_closest_marker("campaign"))]
    if not marked:
        return
    from staticfire.harness.cli.status import BadInput
    from staticfire.harness.plugin.marked_campaign import check_names

    for item, marker in marked:
        if marker.args:
            raise pytest.UsageError(
                f"{item.nodeid}: the marker campaign takes options by name, such as seed=7"
            )
        try:
            check_names(marker.kwargs)
        except BadInput as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error


@pytest.fixture(scope="session")
def rocketmq_cluster_options() -> dict[str, object]:
    """Arguments of LocalCluster; override it in your conftest.py, such as `return {"masters": 2}`."""
    return {}


@pytest.fixture(scope="session")
def rocketmq_cluster(rocketmq_cluster_options: dict[str, Any]) -> Iterator[LocalCluster]:
    """A RocketMQ cluster for all tests of this process, on free ports: one for each worker of pytest-xdist.

    def test_send(rocketmq_cluster):
        producer.set_name_server_address(rocketmq_cluster.name_server_address)
    """
    from staticfire.harness.local_cluster import LocalCluster

    with LocalCluster(**rocketmq_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def rocketmq_faults(rocketmq_cluster: LocalCluster) -> Iterator[ClusterFaults]:
    """Kill, stop and freeze nodes of `rocketmq_cluster`, which needs `{"processes": True}`; heals after the test.

    def test_a_kill(rocketmq_cluster, rocketmq_faults):
        rocketmq_faults.kill("broker-a-0")
    """
    from staticfire.harness.local_cluster.faults import ClusterFaults

    with ClusterFaults(rocketmq_cluster) as faults:
        yield faults


@pytest.fixture
def rocketmq_links(rocketmq_cluster: LocalCluster) -> Iterator[ClusterLinks]:
    """Delay, limit, drop, freeze and cut links between `rocketmq_cluster` and clients; heals after the test.

    def test_a_partition(rocketmq_links):
        producer.set_name_server_address(rocketmq_links.name_server_address)
        rocketmq_links.drop(server="broker-a-0")
    """
    from staticfire.harness.local_cluster.links import ClusterLinks

    with ClusterLinks(rocketmq_cluster) as links:
        yield links


@pytest.fixture
def campaign_result(request: pytest.FixtureRequest) -> RunResult:
    """The result of the test's marker `campaign`, whose verdict is valid.

    @pytest.mark.campaign(seed=7, faults=("kill", "partition"), time_s=20.0)
    def test_nothing_is_lost(campaign_result):
        assert campaign_result.verdict.counts["acked"] > 100
    """
    marker = request.node.get_closest_marker("campaign")
    if marker is None:
        pytest.fail("campaign_result needs the marker @pytest.mark.campaign(...)", pytrace=False)
    return _run_campaign(request.node, marker)


@pytest.fixture(autouse=True)
def _campaign(request: pytest.FixtureRequest) -> None:
    """Run the campaign of a test with the marker, also if the test does not use the result."""
    if request.node.get_closest_marker("campaign") is not None:
        request.getfixturevalue("campaign_result")


def _run_campaign(item: pytest.Item, marker: pytest.Mark) -> RunResult:
    from staticfire.faults.defects import DefectError
    from staticfire.faults.errors import CapabilityMissing, FaultError
    from staticfire.harness.campaign.campaign import CampaignError
    from staticfire.harness.cli.status import BadInput, HarnessError, one_sentence
    from staticfire.harness.console.console import summary_lines
    from staticfire.harness.machines.errors import EnvironmentFailed
    from staticfire.harness.plugin.marked_campaign import SOURCE, read_marker, run_marked
    from staticfire.harness.report.verdict_lines import verdict_lines
    from staticfire.harness.systems.errors import RunError

    refusal = None
    try:
        marked = read_marker(marker.kwargs)
        result = run_marked(marked)
    except (HarnessError, RunError, EnvironmentFailed, CapabilityMissing) as error:
        refusal = f"the campaign could not be run: {one_sentence(str(error))}"
    except (BadInput, CampaignError, FaultError, DefectError) as error:
        text = one_sentence(str(error))
        refusal = text if text.startswith(SOURCE) else f"{SOURCE}: {text}"
    if refusal is not None:  # not within `except`: pytest would print both
        pytest.fail(refusal, pytrace=False)
    verdict = verdict_lines(result.verdict)
    item.user_properties.append(("campaign_verdict", _word(result.verdict.valid)))
    item.user_properties += [("campaign_caveat", text) for text in result.verdict.caveats]
    if result.verdict.valid is not True:
        lines = [f"the campaign of seed {marked.campaign.seed} is {_word(result.verdict.valid)}"]
        pytest.fail("\n".join([*lines, *summary_lines(result, None), *verdict]), pytrace=False)
    item.add_report_section("setup", "campaign", "\n".join(verdict))
    return result


def _word(valid: object) -> str:
    if valid is True:
        return "valid"
    return "invalid" if valid is False else "unknown"


@pytest.fixture(scope="session")
def rocketmq_site(request: pytest.FixtureRequest) -> Site:
    """The site of the conformance suite."""
    from staticfire.harness.conformance.sites.address import AddressSite
    from staticfire.harness.conformance.sites.simulated import SimulatedSite
    from staticfire.harness.conformance.sites.site import SiteFailed

    config = request.config
    address = config.getoption("--rocketmq-name-server")
    if address is None:
        return SimulatedSite(options={"mode": config.getoption("--rocketmq-mode")})
    site = AddressSite(str(address).split(","), prefix="staticfire-pytest")
    try:
        site.look()
    except SiteFailed as error:
        pytest.exit(f"--rocketmq-name-server: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
    return site
