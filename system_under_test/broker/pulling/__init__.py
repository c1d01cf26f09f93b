"""Pulls: filters, held requests, reports."""
