"""Deletes old files, and files that are in the way when a disk fills up."""
