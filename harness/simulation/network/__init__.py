"""A simulated network: links, TCP, TLS, and asyncio's transports on top."""
