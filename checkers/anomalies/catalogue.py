"""All anomalies by name, for checkers, `staticfire promises` and docs/anomalies.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from staticfire.checkers.anomalies.anomaly import Anomaly, by_name
from staticfire.checkers.anomalies.availability import AVAILABILITY
from staticfire.checkers.anomalies.features import FEATURES
from staticfire.checkers.anomalies.groups import GROUPS
from staticfire.checkers.anomalies.log import LOG
from staticfire.checkers.anomalies.transactions import TRANSACTIONS
from staticfire.checkers.anomalies.white_box import WHITE_BOX

ANOMALIES: Final[Mapping[str, Anomaly]] = MappingProxyType(
    dict(by_name((*LOG, *AVAILABILITY, *GROUPS, *FEATURES, *WHITE_BOX, *TRANSACTIONS)))
)
