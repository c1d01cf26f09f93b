"""Messages by key and id, ends of queues, messages that must not be found."""
