"""Serves pulls: filters, held requests, reports."""
