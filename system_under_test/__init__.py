"""A RocketMQ 4.9 in Python: name server, broker, store and clients.

No code in here depends on being tested. It reaches the outside world only through asyncio (network, timers,
tasks, `run_in_executor`) and the `Env` of `staticfire.system_under_test.runtime.env`.
"""
