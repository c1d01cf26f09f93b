"""The registry that maps topics to brokers for clients (RocketMQ: namesrv)."""
