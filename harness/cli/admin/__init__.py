"""`staticfire admin`: the commands of RocketMQ's mqadmin, with mqadmin's names and options."""
