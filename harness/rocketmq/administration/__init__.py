"""Changes of a RocketMQ cluster through its own administration: topics, options, rights, offsets."""
