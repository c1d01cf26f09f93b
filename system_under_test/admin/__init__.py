"""Administration of a cluster (RocketMQ: DefaultMQAdminExt): a client, and functions for administrators.

`AdminClient` sends requests to name servers and brokers; the functions of the other modules take one.
"""

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError

__all__ = ["AdminClient", "AdminError"]
