"""Every kind of fault by name."""

from __future__ import annotations

from faults.bad_network import Bandwidth, NetworkLatency, PacketLoss
from faults.bit_rot import BitRot
from faults.black_holes import BrokerBlackHole, NameServerBlackHole
from faults.cleaning import Cleaning
from faults.client_faults import (
    ClientCrash,
    FailingListener,
    FilterChange,
    GroupAndBrokerCrash,
    MemberLeaves,
    SlowConsumer,
)
from faults.clock_skew import ClockSkew
from faults.disk_faults import DiskFull, DiskLost, FailingDisk, SlowDisk
from faults.errors import FaultError
from faults.fault import Fault
from faults.name_server_faults import NameServerAmnesia, NameServerFreeze, SplitNameServers
from faults.offsets_cloned import OffsetsCloned
from faults.offsets_reset import OffsetsReset
from faults.options_change import OptionsChange
from faults.partition import (
    PartitionBridge,
    PartitionHalves,
    PartitionOne,
    PartitionOneWay,
    PartitionRing,
)
from faults.power_cut import ClusterPowerCut, PowerCut, PowerCutInOperation
from faults.process_faults import GracefulStop, Kill, Pause
from faults.rights_change import RightsChange
from faults.rolling_restart import NameServerFreezeInRollingRestart, RollingRestart
from faults.topic_anew import TopicAnew
from faults.topic_change import TopicChange
from faults.wiped_slave import WipedSlave

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
