"""Replicates log and metadata from masters to slaves and back (RocketMQ, HAService, SlaveSynchronize)."""
