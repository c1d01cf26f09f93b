"""Facts that several rules derive from a history: times at rest, rebalances, settled messages, copies."""
