"""The registry from which clients learn which broker serves which topic (RocketMQ: namesrv)."""
