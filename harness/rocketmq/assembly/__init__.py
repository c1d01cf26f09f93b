"""Assembles RocketMQ as a system: its interface, the operations of a run, the choice of a target."""
