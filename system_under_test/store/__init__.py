"""The message store of a broker: files as RocketMQ 4.9 writes them, and the promise that what was flushed survives."""
