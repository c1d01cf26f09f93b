"""The broker: stores messages, serves consumers, replicates, and registers with the name servers.

Most modules are plain synchronous objects, each for one family of requests. `assembly/` composes them;
`append_pipeline/flush.py`, `replication/ha.py` and `registration/` use asyncio.
"""
