"""Traces of a recorded run in the formats of other tools: Perfetto, OpenTelemetry and ShiViz."""
