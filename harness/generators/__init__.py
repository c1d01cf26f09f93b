"""Pure sources of ops: which op a process does next. The interpreter does the effects."""
