"""Extraction on a Ray cluster whose processes are killed, for benchmarks/kills.py: two workers, then a machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from tests.features.engines.clips import LIGHT, write_clip
from tests.features.engines.test_cluster import model_processes

CLIPS = 120
MOMENTS = (10, 30, 60)  # clips in the store: a worker, another one, a machine


def extract_and_kill(folder: Path) -> tuple[int, list[str]]:
    """How many were killed, and what went wrong."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    for number in range(3):
        write_clip(folder / "clips" / f"v{number}.mp4", seed=number)
    for number in range(3, CLIPS):
        os.link(folder / "clips" / f"v{number % 3}.mp4", folder / "clips" / f"v{number}.mp4")
    quiet = {"include_dashboard": False, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **quiet})
    machines = [cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    store, kills = folder / "store", []

    def kill() -> None:
        for turn, moment in enumerate(MOMENTS):
            while len(list(store.glob("*.safetensors"))) < moment:
                time.sleep(0.01)
            if turn < 2:
                workers = model_processes()
                os.kill(workers[turn % len(workers)], signal.SIGKILL)
            else:
                cluster.remove_node(machines[1], allow_graceful=False)
            kills.append({path.name: path.stat().st_mtime_ns for path in store.glob("*.safetensors")})

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    from hoca.cli import main

    command = ["extract", str(folder / "clips"), "--out", str(store), *LIGHT, "--engine", "ray", "--workers", "2"]
    sys.argv = ["hoca", *command]
    try:
        main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    killer.join(1)
    ray.shutdown()
    cluster.shutdown()
    now = {path.name: path.stat().st_mtime_ns for path in store.glob("*.safetensors")}
    rows = (store / "extraction.csv").read_text(encoding="utf-8").splitlines()[1:]
    problems = []
    if status or len(now) != CLIPS or len(rows) != CLIPS:
        problems.append(f"status {status}, {len(now)} of {CLIPS} clips in the store, {len(rows)} in the report")
    if twice := [name for there in kills for name, at in there.items() if now.get(name) != at]:
        problems.append(f"made twice: {twice[:3]}")
    if len(kills) != len(MOMENTS):
        problems.append(f"{len(kills)} of {len(MOMENTS)} kills came in time")
    return len(kills), problems
