"""What can be broken, how it is broken and how it is put right again.

A fault asks for capabilities (`staticfire.faults.capabilities`), never for an environment. Which faults
strike when is a plan (`staticfire.faults.plan`): data that is drawn from a seed, can be replayed and can be shrunk.
"""
