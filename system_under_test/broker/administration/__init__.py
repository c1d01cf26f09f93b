"""Handles the requests of administrators (RocketMQ, AdminBrokerProcessor)."""
