"""How large the report of a long history is, and how soon a browser has opened it.

Run it: `python tests/benchmarks/bench_report.py [OPS]`, by default for 1,000,000 ops. Prints CPU seconds to make the
report, its bytes, and seconds of the browser's own clock until the page is loaded, the median of five. It
needs Chromium.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from staticfire.harness.html_report.recorded_run import read_recorded
from staticfire.harness.html_report.report import html_report, write_report
from tests.support.browser import browser

TRIES = 5
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"


def main(ops: str = "1000000") -> None:
    with TemporaryDirectory() as temporary:
        folder, report = Path(temporary) / "run", Path(temporary) / "report.html"
        command = [sys.executable, "-m", "staticfire", "synthesize", str(folder), "--ops", ops]
        subprocess.run([*command, "--queues", "24"], capture_output=True, check=True)
        begin_s = time.process_time()
        write_report(report, html_report(read_recorded(folder, lambda _line: None)))
        print(f"made      {time.process_time() - begin_s:.1f} CPU s for {ops} ops")
        print(f"size      {report.stat().st_size} bytes")
        loaded_s = []
        with browser(Path(temporary) / "profile") as chromium:
            for _ in range(TRIES):
                page = chromium.page()
                page.open(report.as_uri())
                loaded_s.append(float(page.evaluate(LOADED)))
        print(f"loaded    {statistics.median(loaded_s):.3f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
