"""A harness that makes one of everything on this machine, says so, and waits to be killed: `killed_harness.py STATE`.

It says where in a line of JSON; the machine is then full of processes, mounts, devices, namespaces and rules.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from signal import SIGSTOP

from staticfire.faults.linux.disks.disk_errors import DiskErrors
from staticfire.faults.linux.disks.disk_space import DiskSpace
from staticfire.faults.linux.disks.disk_speed import DiskSpeed
from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, LoopDisk
from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.network.network import INTERFACE, Network
from staticfire.faults.linux.network.traffic import Shape, Traffic


async def main(state: Path) -> None:
    inventory = Inventory.begin(state)
    machine = LinuxMachine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
    folder = state / f"run-{inventory.identity}"
    machine.will_make("folder", str(folder))
    folder.mkdir()
    network = Network(machine)
    await network.create()
    node = await network.add("broker-a-0")
    inside = machine.behind(node.prefix)
    await Firewall(inside).black_hole()
    await Traffic(inside, INTERFACE).shape(Shape(bits_per_s=1_000_000))
    disk = LoopDisk(machine, f"{folder}/disk", size_bytes=32 * MEBIBYTE)
    await disk.create()
    await DiskSpace(disk).fill()
    await DiskErrors(disk).fail()

    inventory.will_make_marked_processes()
    argv = [*node.prefix, "sh", "-c", f"cd {disk.data_folder}; echo; exec sleep 1000"]
    variables = {**os.environ, **inventory.mark}
    process = subprocess.Popen(argv, env=variables, start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(SIGSTOP)
    slow_disk = LoopDisk(machine, f"{folder}/slow disk", size_bytes=32 * MEBIBYTE)
    await slow_disk.create()
    await DiskSpeed(slow_disk).slow([process.pid], 20.0)
    kinds = sorted({resource.kind for resource in inventory.made})
    print(json.dumps({"identity": inventory.identity, "kinds": kinds}), flush=True)
    await asyncio.sleep(1000)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
