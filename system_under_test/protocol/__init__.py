"""Bytes to commands and messages, and back. No asyncio, no clock, no files."""
