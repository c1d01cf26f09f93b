from __future__ import annotations

import asyncio
import io
import json

from staticfire.system_under_test.runtime.loop_errors import REPEAT_AFTER_NS, LoopErrors
from staticfire.system_under_test.runtime.real_env import JsonLinesLog, RealClock


def test_a_repeated_error_is_logged_now_and_then() -> None:
    output, now_ns = io.StringIO(), [0]
    errors = LoopErrors(JsonLinesLog("node", RealClock(), output), now_ns=lambda: now_ns[0])
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(errors)
    for _ in range(1000):
        loop.call_exception_handler({"message": "no descriptors", "exception": OSError(24, "many")})
    now_ns[0] = REPEAT_AFTER_NS
    loop.call_exception_handler({"message": "no descriptors"})
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    first, again, other = map(json.loads, output.getvalue().splitlines())
    assert (first["event"], first["error"], first["more"]) == (
        "no descriptors",
        "OSError(24, 'many')",
        0,
    )
    assert again["more"] == 999
    assert "ZeroDivisionError" in other["error"]
    assert __file__ in other["at"]


def test_kinds_without_end_do_not_fill_the_memory() -> None:
    output = io.StringIO()
    errors = LoopErrors(JsonLinesLog("node", RealClock(), output), now_ns=lambda: 0)
    loop = asyncio.new_event_loop()
    for number in range(1000):
        errors(loop, {"message": f"kind {number}"})
    loop.close()
    assert len(errors._logged_ns) <= 100
