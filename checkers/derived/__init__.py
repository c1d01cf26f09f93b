"""Facts that several checkers derive from a history: times at rest, rebalances, settled messages, copies."""
