"""`staticfire admin` with keys and over TLS, on a cluster that requires both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.harness.cli import status_of
from staticfire.harness.local_cluster import LocalCluster
from tests.harness.cli.admin.conftest import CLUSTER, Admin

pytestmark = pytest.mark.real

ACCOUNTS = "accounts: [{accessKey: administrator, secretKey: '12345678', admin: true}]"
KEYS = "accessKey: administrator\nsecretKey: '12345678'\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("access")
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    (folder / "tools.yml").write_text(KEYS)
    return folder


@pytest.fixture(scope="module")
def running_cluster(folder: Path) -> Iterator[LocalCluster]:
    """One master: brokers of a cluster on one machine would share the file of accounts."""
    properties = {"aclEnable": "true", "rocketmq.acl.plain.file": str(folder / "plain_acl.yml")}
    with LocalCluster(tls="enforcing", broker_properties=properties) as cluster:
        yield cluster


def test_accounts(admin: Admin, folder: Path) -> None:
    tls = "--use-tls"
    keys = (tls, "--access-key", "administrator", "--secret-key", "12345678")
    file = (tls, "--credentials", folder / "tools.yml")
    where = ("-c", CLUSTER)

    assert "no answer from" in admin.refusal("clusterList")
    assert "No accessKey is configured" in admin.refusal("clusterAclConfigVersion", *where, tls)
    [version] = admin.json("clusterAclConfigVersion", *where, *keys)
    assert (version["brokerName"], version["aclConfigVersion"]) == ("broker-a", 0)

    account = ("-a", "billing-app", "-s", "87654321")
    admin.text("updateAclConfig", *where, *account, "-t", "Orders=PUB|SUB", *file)
    user = (tls, "--access-key", "billing-app", "--secret-key", "87654321")
    admin.text("updateTopic", *where, "-t", "Orders", *keys)
    admin.text("sendMessage", "-t", "Orders", "-p", "x", *user)
    assert "No default permission for Other" in admin.refusal(
        "sendMessage", "-t", "Other", "-p", "x", *user
    )
    assert "Need admin permission" in admin.refusal("updateTopic", *where, "-t", "Mine", *user)

    admin.text("deleteAclConfig", *where, "-a", "billing-app", *keys)
    assert "No acl config for billing-app" in admin.refusal(
        "sendMessage", "-t", "Orders", "-p", "x", *user
    )
    assert "there is no account billing-app" in admin.refusal(
        "deleteAclConfig", *where, "-a", "billing-app", *keys
    )
    admin.text("updateGlobalWhiteAddr", *where, "-g", "127.0.0.*", *keys)
    [version] = admin.json("clusterAclConfigVersion", *where, tls)
    assert version["aclConfigVersion"] == 3


def test_a_choice_of_tls(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["cluster", "up", "--tls", "maybe"]) == 254
    assert "tls is 'maybe'; allowed: disabled, permissive, enforcing" in capsys.readouterr().err


def test_permissive_clusters_take_both(capsys: pytest.CaptureFixture[str]) -> None:
    with LocalCluster() as cluster:
        for options in ([], ["--use-tls"]):
            where = ["-n", cluster.name_server_address]
            assert status_of(["admin", "clusterList", *where, *options]) == 0
    assert "broker-a" in capsys.readouterr().out
