"""Consumers that are asked for messages: pull and lite pull."""
