"""The message store of a broker: it writes RocketMQ 4.9's files, and what it has flushed survives a power cut."""
