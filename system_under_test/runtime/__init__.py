"""`Env`, the interface of a node to the world besides asyncio, and its implementation on a real machine."""
