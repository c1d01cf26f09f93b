"""The contract: TOML tables of clauses, one file an area of the protocol."""
