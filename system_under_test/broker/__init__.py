"""The broker: stores messages, serves consumers, replicates, and registers with the name servers.

Each file handles one family of requests as plain synchronous objects. `assembly/` composes them;
`append_pipeline/flush.py`, `replication/ha.py` and `registration/` hold the asyncio shell.
"""
