"""Diagnoses of well-known situations in words: the event, its cause, and the remedy.

A diagnosis is no verdict: a valid run may still show a situation that its users want to avoid.
"""
