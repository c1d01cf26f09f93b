"""Campaigns: their fields, their fault plans, their TOML files. `campaigns/` holds the named ones."""
