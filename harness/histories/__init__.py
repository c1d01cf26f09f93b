"""Reads and writes histories, op by op, in every form: JSON lines, columns, and Jepsen's EDN."""
