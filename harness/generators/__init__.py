"""Generators: pure sources of ops. Each says which op a process does next, and the interpreter carries it out."""
