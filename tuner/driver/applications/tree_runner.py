"""Runs commands for :mod:`tuner.driver.applications.trees`, one after the other, and times each from beside it.

A program of its own, in namespaces of its own: it may import the standard library alone. A request is a line of JSON,
and so is an answer. Its words are the numbers of three open files: what commands get, and what they write.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time


def main() -> None:
    """Serves until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    given, output, errors = map(int, sys.argv[1:])
    for line in sys.stdin:
        request = json.loads(line)
        begin, used_s = time.perf_counter(), _processor_s()
        try:
            done = subprocess.run(
                request["command"],
                cwd=request["folder"],
                stdin=given,
                stdout=output,
                stderr=errors,
                check=False,
            )
            answer: dict[str, object] = {
                "status": done.returncode,
                "wall_s": time.perf_counter() - begin,
                "processor_s": _processor_s() - used_s,
            }
        except (OSError, ValueError) as error:
            answer = {"failed": getattr(error, "strerror", None) or str(error)}
        print(json.dumps(answer), file=answers, flush=True)


def _processor_s() -> float:
    """Of commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
