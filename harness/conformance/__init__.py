"""The conformance suite: checks a RocketMQ broker or name server clause by clause.

The contract (`contract/*.toml`) states the duties of an implementation in numbered clauses. A case (`cases/`) tests one
clause over the wire. A site (`sites/`) runs or reaches the implementation. The suite runs the cases at a site.
"""
