"""Rules about transactions of several ops: aborted reads, lost writes, cycles."""
