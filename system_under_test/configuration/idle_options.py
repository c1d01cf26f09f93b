"""Options of RocketMQ 4.9.8 without effect here: Java's threads, buffers and pages, and features that we lack.

Nodes report them with RocketMQ's defaults, since mqadmin and dashboards read them, and accept changes without effect.
Numbers of threads are those of a machine with one processor, which is what a node uses.
"""

from __future__ import annotations


def format_idle(options: dict[str, str]) -> str:
    """Lines of a `.properties` text, empty values included."""
    return "".join(f"{name}={value}\n" for name, value in options.items())


# RocketMQ, NettyServerConfig
_SERVER: dict[str, str] = {
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverChannelMaxIdleTimeSeconds": "120",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "true",
    "serverSelectorThreads": "3",
    "serverSocketBacklog": "1024",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "8",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}

# RocketMQ, BrokerConfig, NettyClientConfig and MessageStoreConfig
IDLE_BROKER_OPTIONS: dict[str, str] = {
    **_SERVER,
    "adminBrokerThreadPoolNums": "16",
    "autoDeleteUnusedStats": "false",
    "channelNotActiveInterval": "60000",
    "checkCRCOnRecover": "true",
    "clientAsyncSemaphoreValue": "65535",
    "clientCallbackExecutorThreads": "1",
    "clientChannelMaxIdleTimeSeconds": "120",
    "clientCloseSocketIfTimeout": "true",
    "clientManageThreadPoolNums": "32",
    "clientOnewaySemaphoreValue": "65535",
    "clientPooledByteBufAllocatorEnable": "false",
    "clientSocketRcvBufSize": "0",
    "clientSocketSndBufSize": "0",
    "clientWorkerThreads": "4",
    "commercialBaseCount": "1",
    "commercialBigCount": "1",
    "commercialEnable": "true",
    "commercialTimerCount": "1",
    "commercialTransCount": "1",
    "connectTimeoutMillis": "3000",
    "consumerManageThreadPoolNums": "32",
    "debugLockEnable": "false",
    "deleteConsumeQueueFilesInterval": "100",
    "destroyMapedFileIntervalForcibly": "120000",
    "diskFallRecorded": "true",
    "duplicationEnable": "false",
    "enableDLegerCommitLog": "false",
    "enableDetailStat": "true",
    "enableLmq": "false",
    "enableMultiDispatch": "false",
    "enableScheduleAsyncDeliver": "false",
    "enableScheduleMessageStats": "true",
    "endTransactionThreadPoolNums": "10",
    "fetchNamesrvAddrByAddressServer": "false",
    "filterServerNums": "0",
    "flushCommitLogLeastPages": "4",
    "flushCommitLogThoroughInterval": "10000",
    "flushCommitLogTimed": "true",
    "flushConsumeQueueLeastPages": "2",
    "flushConsumeQueueThoroughInterval": "60000",
    "flushConsumerOffsetHistoryInterval": "60000",
    "flushIntervalCommitLog": "500",
    "flushIntervalConsumeQueue": "1000",
    "flushLeastPagesWhenWarmMapedFile": "4096",
    "haTransferBatchSize": "32768",
    "heartbeatThreadPoolNums": "1",
    "highSpeedMode": "false",
    "isEnableBatchPush": "false",
    "isolateLogEnable": "false",
    "maxDelayTime": "40",
    "maxLmqConsumeQueueNum": "20000",
    "messageIndexSafe": "false",
    "messageStorePlugIn": "",
    "processReplyMessageThreadPoolNums": "18",
    "pullMessageThreadPoolNums": "18",
    "putMessageFutureThreadPoolNums": "1",
    "putMsgIndexHightWater": "600000",
    "putThreadPoolQueueCapacity": "10000",
    "queryMessageThreadPoolNums": "9",
    "scheduleAsyncDeliverMaxPendingLimit": "2000",
    "scheduleAsyncDeliverMaxResendNum2Blocked": "3",
    "sendMessageThreadPoolNums": "1",
    "transferMsgByHeap": "true",
    "useReentrantLockWhenPutMessage": "true",
    "useTLS": "false",
    "warmMapedFileEnable": "false",
}

# RocketMQ, NamesrvConfig
IDLE_NAME_SERVER_OPTIONS: dict[str, str] = {
    **_SERVER,
    "clusterTest": "false",
    "productEnvName": "center",
}
