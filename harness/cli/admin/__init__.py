"""`staticfire admin`: the commands of RocketMQ's mqadmin, under the names and with the options that it gives them."""
