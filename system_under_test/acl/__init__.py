"""Who may do what at a broker: accounts, signatures, permissions (RocketMQ: the module acl)."""
