"""Access control at a broker: accounts, signatures and permissions (RocketMQ: the module acl)."""
