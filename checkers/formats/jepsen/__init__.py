"""Histories of Jepsen's queue workload (Kafka, Redpanda), read and written as EDN."""
