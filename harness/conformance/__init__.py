"""The conformance suite: any RocketMQ broker or name server, judged clause by clause.

The contract (`contract/*.toml`) says in numbered clauses what an implementation of the protocol must do; a case
(`cases/`) tries one clause over the wire; a site (`sites/`) is where the implementation runs; the suite puts them
together.
"""
