"""Administration of a cluster (RocketMQ: DefaultMQAdminExt): a client, and what administrators do with it.

`AdminClient` asks name servers and brokers; the functions of the other modules take one.
"""

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError

__all__ = ["AdminClient", "AdminError"]
