"""The broker: stores messages, serves consumers, replicates, and registers with the name servers.

Each file handles one family of requests as plain synchronous objects; `broker.py` composes them and holds the
asyncio shell together with `flush.py`, `ha.py`, `registration.py` and `slave_sync.py`.
"""
