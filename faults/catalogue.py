"""Every kind of fault by name."""

from __future__ import annotations

from staticfire.faults.bad_network import Bandwidth, NetworkLatency, PacketLoss
from staticfire.faults.bit_rot import BitRot
from staticfire.faults.black_holes import BrokerBlackHole, NameServerBlackHole
from staticfire.faults.cleaning import Cleaning
from staticfire.faults.client_faults import (
    ClientCrash,
    FailingListener,
    FilterChange,
    GroupAndBrokerCrash,
    MemberLeaves,
    SlowConsumer,
)
from staticfire.faults.clock_skew import ClockSkew
from staticfire.faults.disk_faults import DiskFull, DiskLost, FailingDisk, SlowDisk
from staticfire.faults.errors import FaultError
from staticfire.faults.fault import Fault
from staticfire.faults.name_server_faults import (
    NameServerAmnesia,
    NameServerFreeze,
    SplitNameServers,
)
from staticfire.faults.offsets_cloned import OffsetsCloned
from staticfire.faults.offsets_reset import OffsetsReset
from staticfire.faults.options_change import OptionsChange
from staticfire.faults.partition import (
    PartitionBridge,
    PartitionHalves,
    PartitionOne,
    PartitionOneWay,
    PartitionRing,
)
from staticfire.faults.power_cut import ClusterPowerCut, PowerCut, PowerCutInOperation
from staticfire.faults.process_faults import GracefulStop, Kill, Pause
from staticfire.faults.rights_change import RightsChange
from staticfire.faults.rolling_restart import NameServerFreezeInRollingRestart, RollingRestart
from staticfire.faults.topic_anew import TopicAnew
from staticfire.faults.topic_change import TopicChange
from staticfire.faults.wiped_slave import WipedSlave

_ALL: tuple[Fault, ...] = (
    Kill(),
    GracefulStop(),
    Pause(),
    RollingRestart(),
    PowerCut(),
    PowerCutInOperation(),
    ClusterPowerCut(),
    PartitionHalves(),
    PartitionOne(),
    PartitionOneWay(),
    PartitionBridge(),
    PartitionRing(),
    BrokerBlackHole(),
    NetworkLatency(),
    PacketLoss(),
    Bandwidth(),
    DiskFull(),
    FailingDisk(),
    SlowDisk(),
    WipedSlave(),
    DiskLost(),
    BitRot(),
    ClockSkew(),
    NameServerFreeze(),
    NameServerBlackHole(),
    NameServerFreezeInRollingRestart(),
    NameServerAmnesia(),
    SplitNameServers(),
    TopicChange(),
    OffsetsReset(),
    TopicAnew(),
    OptionsChange(),
    Cleaning(),
    OffsetsCloned(),
    RightsChange(),
    ClientCrash(),
    MemberLeaves(),
    GroupAndBrokerCrash(),
    FilterChange(),
    SlowConsumer(),
    FailingListener(),
)

FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}


def fault_named(name: str) -> Fault:
    """Raises FaultError for an unknown name, with the names there are."""
    if name not in FAULTS:
        raise FaultError(f"unknown fault {name!r}; there are: {', '.join(FAULTS)}")
    return FAULTS[name]
