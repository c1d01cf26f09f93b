"""Selects the messages that a consumer group receives: expressions over properties, and the bloom filter."""
