"""The cases of what brokers store, recover and replicate."""
