"""Every kind of fault by name."""

from __future__ import annotations

from staticfire.faults.errors import FaultError
from staticfire.faults.kinds.bad_network import Bandwidth, NetworkLatency, PacketLoss
from staticfire.faults.kinds.bit_rot import BitRot
from staticfire.faults.kinds.black_holes import BrokerBlackHole, NameServerBlackHole
from staticfire.faults.kinds.cleaning import Cleaning
from staticfire.faults.kinds.client_faults import (
    ClientCrash,
    FailingListener,
    FilterChange,
    GroupAndBrokerCrash,
    MemberLeaves,
    SlowConsumer,
)
from staticfire.faults.kinds.clock_skew import ClockSkew
from staticfire.faults.kinds.disk_faults import DiskFull, DiskLost, FailingDisk, SlowDisk
from staticfire.faults.kinds.group_change import GroupChange
from staticfire.faults.kinds.name_server_faults import (
    NameServerAmnesia,
    NameServerFreeze,
    SplitNameServers,
)
from staticfire.faults.kinds.offsets_reset import OffsetsReset
from staticfire.faults.kinds.options_change import OptionsChange
from staticfire.faults.kinds.partition import (
    PartitionBridge,
    PartitionHalves,
    PartitionOne,
    PartitionOneWay,
    PartitionRing,
)
from staticfire.faults.kinds.power_cut import ClusterPowerCut, PowerCut, PowerCutInOperation
from staticfire.faults.kinds.process_faults import GracefulStop, Kill, Pause
from staticfire.faults.kinds.rights_change import RightsChange
from staticfire.faults.kinds.rolling_restart import NameServerFreezeInRollingRestart, RollingRestart
from staticfire.faults.kinds.side_topics import OffsetsCloned, TopicAnew
from staticfire.faults.kinds.topic_change import TopicChange
from staticfire.faults.kinds.wiped_slave import WipedSlave
from staticfire.faults.model.declaration import check_declaration
from staticfire.faults.model.fault import Fault

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
    GroupChange(),
    ClientCrash(),
    MemberLeaves(),
    GroupAndBrokerCrash(),
    FilterChange(),
    SlowConsumer(),
    FailingListener(),
)

FAULTS: dict[str, Fault] = {}


def register(fault: Fault) -> None:
    """Add a kind of fault. Raises FaultError if its declaration is wrong or its name is taken."""
    check_declaration(fault)
    if fault.name in FAULTS:
        raise FaultError(f"there are two faults of the name {fault.name!r}; allowed: one of each")
    FAULTS[fault.name] = fault


def fault_named(name: str) -> Fault:
    """Return the kind of fault. Raises FaultError for an unknown name, with the known names."""
    if name not in FAULTS:
        raise FaultError(f"unknown fault {name!r}; there are: {', '.join(FAULTS)}")
    return FAULTS[name]


for _fault in _ALL:
    register(_fault)
