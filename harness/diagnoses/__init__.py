"""Diagnoses of well-known situations in words: what happened, why, and what helps.

No judgement: a run may be valid and still show what its users did not want.
"""
