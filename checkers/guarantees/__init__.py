"""The guarantees of a run: facts, faults and their effects, excuses, promises and the shape of a verdict."""
