"""The proxy itself: listeners, connections, faults of links, counters."""
