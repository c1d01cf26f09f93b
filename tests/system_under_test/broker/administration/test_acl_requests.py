"""A simulated broker with accounts: clients that sign, a stranger, and the administration of accounts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from staticfire.system_under_test.acl.signature import Credentials, make_signer
from staticfire.system_under_test.broker.administration.acl_requests import topic_at
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingClient
from tests.system_under_test.broker.bench import Bench
from tests.system_under_test.broker.registration.test_registration import BROKER_ADDRESS, Cluster

PATH = "/store/config/plain_acl.yml"
ADMIN = Credentials(access_key="rocketmq2", secret_key="12345678")
USER = Credentials(access_key="somebody", secret_key="87654321")
ACCOUNTS = "accounts: [{accessKey: rocketmq2, secretKey: '12345678', admin: true}]"


class GuardedCluster(Cluster):
    """The broker knows one administrator."""

    def start_guarded_broker(self) -> None:
        disk = self.broker.disk
        disk.makedirs("/store/config")
        file = disk.open(PATH, create=True)
        file.pwrite(ACCOUNTS.encode(), 0)
        file.close()
        self.start_broker(acl_enable=True)


async def ask(
    remoting: RemotingClient, who: Credentials | None, code: int, ext: dict[str, str]
) -> RemotingCommand:
    request = RemotingCommand.request(code, dict(ext))
    if who is not None:
        make_signer(who)(request)
    return await remoting.invoke(BROKER_ADDRESS, request, 1.0)


def test_accounts() -> None:
    async def story(cluster: Cluster, remoting: RemotingClient) -> None:
        assert isinstance(cluster, GuardedCluster)
        cluster.start_guarded_broker()
        await asyncio.sleep(1)
        maximum = {"topic": "TBW102", "queueId": "0"}
        refused = await ask(remoting, None, 30, maximum)
        assert (refused.code, refused.remark) == (1, "AclException: No accessKey is configured")
        assert (await ask(remoting, ADMIN, 30, maximum)).code == 0
        account = {"accessKey": USER.access_key, "secretKey": USER.secret_key}
        perms = {"topicPerms": "T=PUB", "groupPerms": "g=SUB"}
        assert (await ask(remoting, ADMIN, 50, {**account, "secretKey": "short"})).code == 209
        assert (await ask(remoting, ADMIN, 50, {**account, **perms})).code == 0
        assert (await ask(remoting, USER, 30, maximum)).code == 0
        assert (await ask(remoting, USER, 51, {"accessKey": ADMIN.access_key})).code == 1
        assert (await ask(remoting, ADMIN, 51, {"accessKey": "nobody"})).code == 210
        assert (await ask(remoting, ADMIN, 53, {"globalWhiteAddrs": "10.0.0"})).code == 211
        info = await ask(remoting, ADMIN, 52, {})
        assert '"counter":1' in info.ext_fields["version"]
        assert info.ext_fields["brokerName"] == "broker-a"
        assert (await ask(remoting, ADMIN, 51, {"accessKey": USER.access_key})).code == 0
        assert (await ask(remoting, USER, 30, maximum)).code == 1
        assert (await ask(remoting, ADMIN, 53, {"globalWhiteAddrs": "10.0.0.*"})).code == 0
        assert (await ask(remoting, None, 30, maximum)).code == 0

    GuardedCluster().run(story)


@pytest.mark.parametrize(("code", "failure"), [(50, 209), (51, 210), (52, 1), (53, 211)])
def test_without_accounts_there_is_nothing_to_administrate(code: int, failure: int) -> None:
    async def story(cluster: Cluster, remoting: RemotingClient) -> None:
        cluster.start_broker()
        await asyncio.sleep(1)
        answer = await ask(remoting, None, code, {"accessKey": "somebody"})
        assert (answer.code, answer.remark) == (failure, "aclEnable is false")

    Cluster().run(story)


def test_a_producer_signs() -> None:
    async def story(cluster: Cluster, remoting: RemotingClient) -> None:
        assert isinstance(cluster, GuardedCluster)
        cluster.start_name_server(cluster.name_servers[0])
        await asyncio.sleep(0.1)
        cluster.start_guarded_broker()
        await asyncio.sleep(1)
        config = ProducerConfig(
            group="p", name_servers=("10.0.0.1:9876",), client_id="10.0.0.4@test"
        )
        message = Message(topic="TBW102", body=b"hi")
        producer = Producer(cluster.env, replace(config, credentials=ADMIN))
        await producer.start()
        assert (await producer.send(message)).status is SendStatus.SEND_OK
        await producer.stop()
        producer = Producer(cluster.env, replace(config, credentials=USER))
        await producer.start()
        with pytest.raises(ClientError, match="No acl config for somebody"):
            await producer.send(message)
        await producer.stop()

    GuardedCluster().run(story)


def test_the_topic_of_a_message_is_the_one_that_it_was_sent_to(bench: Bench) -> None:
    bench.send()
    half = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "U1"}
    bench.send(topic="Orders", sys_flag=4, properties=half)
    bench.send(topic="Later", properties={"DELAY": "3"})
    bench.send(topic="Open", properties={"REAL_TOPIC": "Other", "REAL_QID": "0"})
    offsets = [0]
    for _ in range(3):
        offsets.append(offsets[-1] + int.from_bytes(bench.store.read_raw(offsets[-1], 4), "big"))
    topics = [topic_at(bench.store, offset) for offset in offsets]
    assert topics == ["TopicTest", "Orders", "Later", "Open"]
    with pytest.raises(ValueError, match=r"no message begins at offset 1$"):
        topic_at(bench.store, 1)
