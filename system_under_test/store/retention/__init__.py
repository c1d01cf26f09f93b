"""Deletes old files, and more when a disk fills up."""
