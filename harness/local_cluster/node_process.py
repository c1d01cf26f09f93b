"""`python -m staticfire.harness.local_cluster.node_process`: runs a node, given as a pickle on standard input.

It prints `started` and `settled`, or `failed <reason>`, `refused <reason>` or `port-in-use <reason>`.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading

from staticfire.harness.local_cluster.errors import NodeRefused, PortInUse
from staticfire.harness.local_cluster.running import NodeOrder
from staticfire.harness.local_cluster.serving import serve
from staticfire.system_under_test.__main__ import run_until_signalled
from staticfire.system_under_test.broker.append_pipeline.flush import StoreFailed
from staticfire.system_under_test.configuration.real_tls import RealTls, TlsOptions
from staticfire.system_under_test.runtime.real_env import make_env, use_all_descriptors


def _end_with_parent() -> None:
    """End this process at the end of its standard input, which means that the parent process is gone."""
    while os.read(0, 1):  # not sys.stdin: its lock would be held at the end of the interpreter
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _say(text: str) -> None:
    print(" ".join(text.split()), flush=True)


def main() -> int:
    """Run the node and return the exit status."""
    order = pickle.load(sys.stdin.buffer)
    assert isinstance(order, NodeOrder)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tls = RealTls(TlsOptions(mode=order.tls_mode))
    use_all_descriptors()
    env = make_env(order.name, tls)
    node = serve(env, order.config, _say, peers=order.peers)
    try:
        asyncio.run(run_until_signalled(env, node))
    except PortInUse as error:
        _say(f"port-in-use {error}")
        return 1
    except NodeRefused as error:
        _say(f"refused {error}")
        return 1
    except StoreFailed as error:
        _say(f"failed {error}")
        return 1
    except Exception as error:
        _say(f"failed {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
