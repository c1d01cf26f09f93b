"""Outputs of the suite: JUnit XML, JSON, Markdown, an HTML matrix and a badge."""
