"""What administrators ask and change (RocketMQ, AdminBrokerProcessor)."""
