"""What a run shows of well-known situations, in words: who did what, why, and what helps.

No judgement: a run may be valid and still show what its users did not want.
"""
