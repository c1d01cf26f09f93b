"""What the suite writes: JUnit XML, JSON, Markdown, an HTML matrix and a badge."""
