"""Declarations of the kinds of op: requests, answers, reports, form in the history."""
