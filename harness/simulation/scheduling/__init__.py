"""Virtual time: the heaps of events, a run queue for each process, the trace of a run."""
