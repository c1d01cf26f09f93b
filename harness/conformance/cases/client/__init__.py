"""Cases about client libraries: sends, consumption, rebalancing."""
