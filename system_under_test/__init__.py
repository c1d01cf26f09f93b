"""A RocketMQ 4.9 in Python: name server, broker, store and clients.

Nothing in here knows that it is being tested. The world comes in through two doors: asyncio (network, timers,
tasks, `run_in_executor`) and the `Env` of `staticfire.system_under_test.runtime.env`.
"""
