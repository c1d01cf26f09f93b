"""The kinds of fault: one file each, or one file for kinds that differ in a few lines."""
