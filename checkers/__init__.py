"""History to verdict: one kernel an anomaly, pure functions of history and observations."""
