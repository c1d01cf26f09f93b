"""What can be broken, how it is broken and how it is put right again.

A fault asks for capabilities (`faults/model/capabilities.py`), never for an environment. Which faults strike when is a
plan (`faults/plans/plan.py`): data that is drawn from a seed, can be replayed and can be shrunk.
"""
