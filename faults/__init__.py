"""Kinds of fault, the mechanisms that inject them, and planted defects.

A fault asks for capabilities (`faults/model/capabilities.py`), never for an environment. A plan
(`faults/plans/plan.py`) says which faults strike and when. It is data: drawn from a seed, and possible to replay and to
shrink.
"""
