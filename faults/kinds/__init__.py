"""The kinds of fault, one file each, or a family whose members differ in a line."""
