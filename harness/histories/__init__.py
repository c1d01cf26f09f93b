"""Histories in all their forms: JSON lines, columns, and Jepsen's EDN; read and written op by op."""
