"""Tables about the commands of the pages: which are made smaller, which are only parsed, and how they end."""

from __future__ import annotations

import re

ROOT_ONLY = "needs root and machines of its own"
DOCKER = "needs a Docker engine"
SSH = "needs hosts that let root in"
APACHE = "needs Java and a distribution of Apache RocketMQ"
EXTERNAL = "needs a cluster at that address"
SPARK_CLUSTER = "needs a Spark cluster"
INSTALLS = "installs packages"
WHOLE_SUITE = "the test suite itself"
HOURS = "measures for hours"


def key_of(command: str) -> str:
    """The command as it stands in a page, without the comment behind it."""
    return re.sub(r"\s+# .*$", "", command).strip()


# Parsed by click where they are ours, and not carried out.
PARSED = {
    "make run": INSTALLS,
    "staticfire conform --name-server 127.0.0.1:9876 --profile broker-core --expect expectations.toml"
    " --out report": EXTERNAL,
    "cat report/summary.md": "reads the report of the command before it",
    "staticfire run --campaign default --target apache --home DIR --environment namespaces --faults all": APACHE,
    "make test": WHOLE_SUITE,
    "make museum": HOURS,
    "make mutants": HOURS,
    "python -m staticfire.harness.museum.mutants --count 300": HOURS,
    "python -m staticfire.harness.museum.mutants --again": HOURS,
    "staticfire analyze --master spark://10.0.0.1:7077 --out /shared/analysis /shared/runs": SPARK_CLUSTER,
    "staticfire analyze --master spark://10.0.0.1:7077 --rows /shared/runs.parquet /shared/runs": SPARK_CLUSTER,
    "staticfire hunt --master spark://10.0.0.1:7077 --seeds 0-9999 --out monday.parquet": SPARK_CLUSTER,
    "staticfire hunt merge monday.parquet tuesday.jsonl --out week.parquet": SPARK_CLUSTER,
    "staticfire analyze --master sc://10.0.0.1:15002 /shared/runs": SPARK_CLUSTER,
    "staticfire analyze --follow runs": "starts Spark, and follows until Ctrl-C",
    "python -m venv packed && packed/bin/pip install numpy pyarrow orjson networkx venv-pack": INSTALLS,
    "packed/bin/venv-pack -o environment.tar.gz": INSTALLS,
    "staticfire analyze --master spark://10.0.0.1:7077 --packed environment.tar.gz /shared/runs": SPARK_CLUSTER,
    "spark-submit --master yarn $(which staticfire) analyze --engine spark /shared/runs": SPARK_CLUSTER,
    "staticfire table --target apache --home DIR --environments processes,namespaces --out apache.jsonl": APACHE,
    "staticfire conform --environment processes --target apache --home DIR": APACHE,
    "staticfire conform --name-server 10.0.0.1:9876 --out report": EXTERNAL,
    "staticfire conform --name-server 10.0.0.1:9876 --out java": EXTERNAL,
    "staticfire conform --name-server 10.0.0.2:9876 --out mine --beside java": EXTERNAL,
    "pytest --pyargs staticfire.harness.conformance --rocketmq-name-server 10.0.0.1:9876": EXTERNAL,
    "staticfire run --campaign default --environment namespaces --faults all": ROOT_ONLY,
    "staticfire docker-image": DOCKER,
    "staticfire run --campaign default --environment docker --faults kill,power-cut,disk-full": DOCKER,
    "staticfire run --environment ssh --ssh-hosts root@10.0.0.1,root@10.0.0.2,root@10.0.0.3 --slaves 0"
    " --replication none --name-servers 1": SSH,
    "staticfire run --campaign default --target apache --home ~/rocketmq-all-4.9.8-bin-release"
    " --environment namespaces --faults all": APACHE,
    "docker build --tag rocketmq-base .": DOCKER,
    "staticfire docker-image --base rocketmq-base --tag rocketmq-node": DOCKER,
    "staticfire run --campaign default --target apache --home /opt/rocketmq --environment docker"
    " --image rocketmq-node": DOCKER,
}

# Parts of expensive commands and what stands there in the test; an empty part appends.
REPLACED: dict[str, tuple[tuple[str, str], ...]] = {
    "staticfire analyze --master 'local[2]' runs": (("--master 'local[2]' ", ""),),
    "staticfire analyze runs-4.9 runs-5.0": (("runs-4.9 runs-5.0", "runs runs"),),
    "staticfire hunt --campaign my.toml --seeds 0-99": (("0-99", "0-1 --time 10"),),
    "staticfire serve runs": (("runs", "docs"),),
    "python -m staticfire.harness.clients producer": (("", "< /dev/null"),),
    "python -m staticfire.harness.clients.cpp.client producer": (("", "< /dev/null"),),
    "staticfire run --campaign default --environment processes --faults all --client 'node my_client.js'": (
        (
            "--faults all --client 'node my_client.js'",
            "--client 'python docs/minimal_client.py' --dry-run",
        ),
    ),
    "staticfire run --environment address --name-server 127.0.0.1:9876 --client ./my_client --dry-run": (
        (
            "--environment address --name-server 127.0.0.1:9876 --client ./my_client",
            "--environment processes",
        ),
    ),
    # The page shows what a terminal shows.
    "staticfire proxy --name-server 127.0.0.1:9876 --port 19876": ((" --port 19876", ""),),
    "staticfire conform": (("", "--select 'RMQ-NS-*'"),),
    "staticfire conform --mode faithful": (("", "--select 'RMQ-NS-*'"),),
    "staticfire conform --environment processes": (("", "--select RMQ-NS-01"),),
    "staticfire conform --client './my_client'": (("./my_client'", "own' --select RMQ-ORD-06"),),
    "staticfire conform --name-server 127.0.0.1:9876 --profile broker-core --out report": (
        ("--profile broker-core", "--select RMQ-NS-06"),
    ),
    "staticfire conform --client 'python docs/minimal_client.py' --out client-report": (
        ("--out", "--select RMQ-RBL-04 --out"),
    ),
    "staticfire run --environment processes --client 'python docs/minimal_client.py' --workload queue --seed 1"
    " --faults kill,pause,partition-one,client-crash,member-leaves": (("", "--dry-run"),),
    "python -m staticfire.harness.museum.mutants --sample 3 --rotation X": (
        ("--sample 3 --rotation X", "--help"),
    ),
    # A run of real machines, which the page begins with.
    "staticfire resimulate runs/<the run> --budget 480": (
        ("runs/<the run> --budget 480", "--help"),
    ),
    "staticfire reproduce ack-before-fsync --blind": (("--blind", "--blind --budget 5"),),
    "staticfire export runs/<the run> --shiviz life.log --key p1-100": (("p1-100", "p1-1"),),
    "staticfire shrink lost/* --budget 60 --out small": (("60", "5"),),
    "staticfire hunt --campaign docs/examples/campaigns/lost-message.toml --seeds 0-19": (
        ("0-19", "0-1"),
    ),
    "staticfire synthesize big --ops 1000000": (("1000000", "20000"),),
    "staticfire analyze --master 'local[2]' big": (("--master 'local[2]' ", ""),),
    "staticfire admin updateTopic -n 127.0.0.1:9876 -c DefaultCluster -t Orders -r 2 -w 2": (
        ("", "--dry-run"),
    ),
    "python -m tests.checkers.mutations --workloads queue,ordered,delayed,retry,transactional,filtered,broadcast,"
    "request-reply --seeds 1-2 --places 20": (("", "--help"),),
    "staticfire run --campaign default --environment address --name-server 127.0.0.1:9876,127.0.0.1:9877"
    " --faults all": (("", "--dry-run"),),
    "staticfire shrink runs/<the run> --budget 120": (("120", "5"),),
    "staticfire run --system my_package.my_module:SYSTEM --seed 1": (
        ("my_package.my_module:SYSTEM", "tests.support.toylog.system:TOYLOG"),
    ),
    "staticfire hunt --system my_package.my_module:SYSTEM --seeds 0-99": (
        (
            "my_package.my_module:SYSTEM --seeds 0-99",
            "tests.support.toylog.system:TOYLOG --seeds 0-2",
        ),
    ),
}

# Exit statuses other than 0.
STATUSES: dict[str, int | tuple[int, ...]] = {
    "staticfire reproduce ack-before-fsync --blind": (0, 2),  # found, or not in so short a time
    "staticfire run --defect ack-before-fsync --seed 1": 1,
    "staticfire run --system tests.support.toylog.system:FORGETFUL --seed 1": 1,
    "staticfire run --campaign docs/examples/campaigns/lost-message.toml --seed 1 --defect ack-before-fsync"
    " --runs lost": 1,
    "staticfire run --campaign docs/examples/campaigns/lost-message.toml --seed 1 --defect ack-before-fsync"
    " --runs first": 1,
    "staticfire replay lost/*": 1,
    "staticfire crash-store --defect cut-leaves-the-old-tail --shrink cycle.json": 1,
    "staticfire crash-store --repeat cycle.json": 1,
    "staticfire analyze big": 1,
    "staticfire analyze --master 'local[2]' big": 1,
    "python -m staticfire.harness.clients producer": 254,  # there is no configuration on standard input
    "python -m staticfire.harness.clients.cpp.client producer": 254,
}

# Commands that serve until Ctrl-C, and the beginning of the line after which they are ready: the test goes on then, and
# interrupts them at the end of the page.
SERVERS = {
    "staticfire cluster up": "stop",
    "staticfire serve": "serving",
    "staticfire proxy": '{"event":"started"',
}

# Files that a page takes for granted: a fence of the page (language and number), or a file of the repository.
FILES: dict[str, dict[str, tuple[str, int] | str]] = {
    "docs/campaigns.md": {"my.toml": ("toml", 0)},
}
