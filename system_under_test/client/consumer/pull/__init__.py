"""Consumers whose application asks for messages: pull and lite pull."""
