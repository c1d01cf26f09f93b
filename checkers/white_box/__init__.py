"""Rules that need a view into nodes: durability of statuses, replicas, queue entries, routes, resources."""
