"""The doors to the world: asyncio and `Env`, and their implementations on a real machine."""
