"""Declares the kinds of op: their requests, answers, reports, and form in the history."""
