"""The guarantees of a run: facts, effects of faults, excuses, promises, findings and verdicts."""
