"""Cases about storage, recovery and replication of brokers."""
