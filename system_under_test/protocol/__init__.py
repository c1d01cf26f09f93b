"""Encodes and decodes commands and messages. No asyncio, no clock, no files."""
