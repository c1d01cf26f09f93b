"""RocketMQ put together: its face, the operations of a run, the choice of a target."""
