"""What decides which messages a consumer group is given: expressions over properties, and the bloom filter."""
