"""Virtual time: one heap of events, a run queue for each process, the trace of what happened."""
