"""The proxy without the protocol: listeners, connections, faults of links, counters."""
