"""The fixture `rocketmq_cluster` in another project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

TESTS = """
import socket

def test_reachable(rocketmq_cluster):
    host, port = rocketmq_cluster.name_server_address.split(":")
    socket.create_connection((host, int(port))).close()

def test_the_same_again(rocketmq_cluster):
    assert len(rocketmq_cluster.brokers) == 3
"""
CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def rocketmq_cluster_options():
    return {"masters": 2, "slaves": (1, 0)}
"""


# The plugin itself, whether or not this Python has it installed as an entry point.
PLUGIN = ("-p", "no:rocketmq", "-p", "staticfire.harness.plugin.pytest_plugin")


def run_pytest(
    folder: Path, *arguments: str, path: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the tests of a project; `path` is where it finds `staticfire`."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *PLUGIN,
        *arguments,
        str(folder),
    ]
    return subprocess.run(
        command,
        cwd=folder,
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=300,
    )


MINE = """
import checkers, faults, harness

def test_mine(rocketmq_cluster):
    assert (checkers.MINE, faults.MINE, harness.MINE) == (1, 1, 1)
    assert len(rocketmq_cluster.brokers) == 1

@pytest.mark.campaign(seed=3, faults=(), time_s=5.0)
def test_a_campaign(campaign_result):
    assert campaign_result.verdict.valid is True
"""


@pytest.mark.slow
@pytest.mark.real
def test_a_project_may_have_folders_of_our_names(tmp_path: Path) -> None:
    site, project = tmp_path / "site", tmp_path / "project"
    site.mkdir()
    (site / "staticfire").symlink_to(ROOT / "staticfire")
    for name in ("harness", "faults", "checkers"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("MINE = 1\n")
    (project / "test_mine.py").write_text(f"import pytest\n{MINE}")
    done = run_pytest(project, "-q", path=site)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_a_project_uses_the_fixture(workers: list[str], tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in ("test_one.py", "test_two.py"):
        (tmp_path / name).write_text(TESTS)
    done = run_pytest(tmp_path, "-q", *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_plugin_costs_nothing_before_it_is_used() -> None:
    code = (
        "import sys, staticfire.harness.plugin.pytest_plugin;"
        "late = ('staticfire.system_under_test', 'staticfire.harness.local');"
        "sys.exit(any(name.startswith(late) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


CAMPAIGN_TESTS = """
import pytest

@pytest.mark.campaign(seed=3, faults=("kill",), time_s=10.0, acks_min=20)
def test_nothing_is_lost(campaign_result):
    assert campaign_result.verdict.counts["acked"] > 20

@pytest.mark.campaign(seed=3, faults=("none",))
def test_bad_options():
    pass

@pytest.mark.campaign(seed=3, faults=("kill",), time_s=10.0, acks_min=1_000_000)
def test_that_proves_nothing():
    pass

def test_without_marker(campaign_result):
    pass
"""


@pytest.mark.slow
def test_a_marker_makes_a_campaign_of_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_campaigns.py").write_text(CAMPAIGN_TESTS)

    done = run_pytest(tmp_path, "-q")

    assert "1 passed" in done.stdout
    assert "the marker campaign: " in done.stdout
    assert "the campaign of seed 3 is unknown" in done.stdout
    assert "campaign_result needs the marker" in done.stdout


OPTION_TESTS = """
import pytest

import staticfire.system_under_test.broker.assembly.broker  # the sound system is imported already

@pytest.mark.campaign(seed=25, defect="ack-before-fsync")
def test_with_a_planted_bug():
    pass

@pytest.mark.campaign(campaign="power-loss-on-slow-disk", seed=3)
def test_of_a_named_campaign(campaign_result):
    assert campaign_result.campaign.replication == "none"
    assert {fault.planned.kind for fault in campaign_result.faults} >= {"power-cut", "slow-disk"}

@pytest.mark.campaign(seed=3, faults=(), time_s=5.0, workload="ordered")
def test_without_faults(campaign_result):
    assert campaign_result.campaign.workload == "ordered"

@pytest.mark.campaign(seed=3, environment="moon")
def test_in_no_environment():
    pass

@pytest.mark.campaign(seed=3, target="apache")
def test_of_a_target_that_is_not_simulated():
    pass

@pytest.mark.campaign(seed=3, client="cpp")
def test_with_a_client_that_is_not_simulated():
    pass

@pytest.mark.campaign(seed=3, defect="none-such")
def test_with_an_unknown_defect():
    pass
"""


@pytest.mark.slow
def test_every_option_of_the_marker_is_honoured_or_refused(tmp_path: Path) -> None:
    (tmp_path / "test_options.py").write_text(OPTION_TESTS)

    done = run_pytest(tmp_path, "-q", "--junit-xml", str(tmp_path / "junit.xml"))

    assert "2 passed, 5 errors" in done.stdout, done.stdout
    assert "the campaign of seed 25 is invalid" in done.stdout
    assert "ACKED NOT DURABLE" in done.stdout
    assert "the marker campaign: environment is 'moon'; allowed: simulation" in done.stdout
    assert "allowed: processes, namespaces, docker, ssh with --target apache" in done.stdout
    assert "for C++" in done.stdout
    assert (
        "the marker campaign: unknown defect 'none-such', and not a .diff file; there are:"
        in done.stdout
    )
    junit = (tmp_path / "junit.xml").read_text()
    assert junit.count('name="campaign_caveat" value="no fault was injected') == 1


REAL_TESTS = """
import pytest

@pytest.mark.campaign(
    seed=3, environment="processes", faults="kill", time=10, masters=1, slaves=0, acks_min=20, replication="none"
)
def test_with_real_processes(campaign_result):
    assert campaign_result.campaign.environment == "processes"
    assert campaign_result.campaign.followers == (0,)
"""


@pytest.mark.slow
@pytest.mark.real
def test_a_marked_campaign_runs_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "test_real.py").write_text(REAL_TESTS)

    done = run_pytest(tmp_path, "-q")

    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_an_unknown_option_of_the_marker_is_a_usage_error(tmp_path: Path) -> None:
    text = CAMPAIGN_TESTS.replace("acks_min=20", "minimum=20")
    (tmp_path / "test_campaigns.py").write_text(text)

    done = run_pytest(tmp_path, "-q")

    assert done.returncode == 4
    said = done.stdout + done.stderr
    assert "test_nothing_is_lost: the marker campaign has an unknown option 'minimum'" in said


FAULT_TESTS = """
import pytest

@pytest.fixture(scope="session")
def rocketmq_cluster_options():
    return {"processes": True}

def test_kill(rocketmq_cluster, rocketmq_faults):
    before = rocketmq_cluster.pid("broker-a-0")
    rocketmq_faults.kill("broker-a-0")
    assert rocketmq_cluster.pid("broker-a-0") is None
    rocketmq_faults.freeze("name-server-1")

def test_everything_was_healed(rocketmq_cluster):
    assert rocketmq_cluster.pid("broker-a-0") is not None

def test_unknown_node(rocketmq_faults):
    with pytest.raises(Exception, match="there is no node 'broker-z'"):
        rocketmq_faults.freeze("broker-z")
"""


@pytest.mark.slow
@pytest.mark.real
def test_faults_are_healed_after_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_faults.py").write_text(FAULT_TESTS)

    done = run_pytest(tmp_path, "-q")

    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_conformance_suite_is_tests(tmp_path: Path) -> None:
    command = ("--pyargs", "staticfire.harness.conformance", "-q", "-k", "RMQ-REM-0")

    done = run_pytest(tmp_path, *command)

    assert "9 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_a_target_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    command = (
        "--pyargs",
        "staticfire.harness.conformance",
        "-q",
        "--rocketmq-name-server",
        "127.0.0.1:1",
    )

    done = run_pytest(tmp_path, *command)

    assert done.returncode == 4
    assert "cannot connect to 127.0.0.1:1" in done.stdout + done.stderr


LINK_TESTS = """
import socket
import struct

QUESTION = b'{"code": 106, "flag": 0, "opaque": 1, "version": 409}'

def answers(address):
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as found:
        found.sendall(struct.pack(">ii", 4 + len(QUESTION), len(QUESTION)) + QUESTION)
        found.settimeout(0.5)
        try:
            return bool(found.recv(4))
        except OSError:
            return False

def test_links(rocketmq_links, rocketmq_cluster):
    address = rocketmq_links.name_server_address
    assert answers(address)
    fault = rocketmq_links.freeze(server="name-servers")
    assert not answers(address)
    assert fault.bitten
    assert answers(rocketmq_cluster.name_server_address)
    rocketmq_links.heal()
    assert answers(address)
    rocketmq_links.cut()

def test_of_one_client_and_after_a_fault_that_stayed(rocketmq_links):
    rocketmq_links.drop(client="one", direction="down")
    assert not answers(rocketmq_links.name_servers_for("one"))
    assert answers(rocketmq_links.name_servers_for("other"))
"""


@pytest.mark.slow
@pytest.mark.real
def test_links_are_broken_and_healed(tmp_path: Path) -> None:
    (tmp_path / "test_links.py").write_text(LINK_TESTS)

    done = run_pytest(tmp_path, "-q")

    assert "2 passed" in done.stdout, done.stdout
