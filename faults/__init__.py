"""Kinds of fault, the mechanics that carry them out, and planted defects.

A fault asks for capabilities (`faults/model/capabilities.py`), never for an environment. Which faults strike when is a
plan (`faults/plans/plan.py`): data that is drawn from a seed, can be replayed and can be shrunk.
"""
