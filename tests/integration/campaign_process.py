"""A campaign in a process of its own, for tests that end it."""

import sys
import threading
import time
from pathlib import Path

from perf_pipeline.lab import lock
from perf_pipeline.lab.campaign import run_campaign
from perf_pipeline.replay.workload import freeze_workload
from perf_pipeline.storage import LocalObjectStore
from tests.integration.demo_lab import short_demo_plan, token_source


def main(folder: Path, in_thread: bool) -> None:
    """Measure 1.0.0 against 1.0.1; in a thread of its own, leave the main thread while the first run is held."""
    lock.tempfile.tempdir = str(folder)
    plan = short_demo_plan(folder / "plan")
    store = LocalObjectStore(folder / "store")
    workload = freeze_workload(store, plan)
    tokens, public_key, _ = token_source(plan)
    arguments = (store, plan, "1.0.0", "1.0.1", workload, tokens, public_key)
    if not in_thread:
        run_campaign(*arguments)
        return
    threading.Thread(target=run_campaign, args=arguments).start()
    while not any("hold_start" in log.read_text() for log in store.root.rglob("k6.log")):
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] == ["thread"])
