"""Extraction on a Ray cluster: Ray Data deals the videos out to model processes, each with its own decoders.

A video is decoded on the machine that runs its networks, so that no frame crosses the network, and is written to the
store by the process that made it. A process that dies therefore costs a retry of the few videos it had at hand, and of
those only the ones that are not in the store yet. All machines must see videos and store under the same paths.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hoca.errors import UserError
from hoca.features.engines.settings import ExtractionSettings
from hoca.features.engines.summary import Outcome
from hoca.features.engines.videos import VideoFile
from hoca.features.store import FeatureStore

MOST_VIDEOS_A_TASK = 16

Columns = dict[str, np.ndarray]


def run(
    videos: Sequence[VideoFile], store: FeatureStore, specification: dict[str, Any], settings: ExtractionSettings
) -> Iterator[Outcome]:
    """Extract and store; yields what became of each video, in the order in which tasks finish.

    The cluster is the one that RAY_ADDRESS names or that runs on this machine; else one is started here for this run.
    """
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    given = {os.fsencode(video.id): video for video in videos}
    try:
        for row in _outcomes(videos, store, specification, settings).iter_rows():
            duration = None if np.isnan(row["duration"]) else float(row["duration"])
            yield Outcome(given[bytes(row["id"])], row["status"], row["why"], json.loads(row["absent"]), duration)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, UserError | OSError):  # a full disk, a folder that may not be written
            raise error.cause from None
        raise
    finally:
        if ours:
            ray.shutdown()


def _outcomes(
    videos: Sequence[VideoFile], store: FeatureStore, specification: dict[str, Any], settings: ExtractionSettings
) -> Any:
    """A Ray dataset of what becomes of each video; reading it runs the extraction."""
    import ray

    resources = ray.cluster_resources()
    gpu = settings.device != "cpu" and resources.get("GPU", 0) >= 1
    if settings.device.startswith("cuda") and not gpu:
        raise UserError("the Ray cluster has no GPU: use --device cpu, or add a machine that has one")
    processes = settings.workers or _processes(resources, gpu)
    cpus = max(1, int(resources.get("CPU", 1) / processes))
    # Paths as bytes: a file name need not be valid UTF-8, a column of text must.
    rows = [{"id": os.fsencode(video.id), "path": os.fsencode(os.path.abspath(video.file))} for video in videos]
    videos_a_task = max(1, min(MOST_VIDEOS_A_TASK, len(rows) // (4 * processes)))
    return ray.data.from_items(rows, override_num_blocks=-(-len(rows) // videos_a_task)).map_batches(
        ClusterWorker,
        fn_constructor_args=(str(store.folder.absolute()), specification, settings, cpus, gpu),
        batch_size=None,
        compute=ray.data.ActorPoolStrategy(size=processes),
        num_cpus=cpus,
        num_gpus=1 if gpu else 0,
    )


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report its use to its makers
    try:
        import ray
        import ray.data
    except ImportError:
        raise UserError("--engine ray needs Ray: pip install 'hoca[cluster]', or use --engine local") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


class ClusterWorker:
    """A model process of the cluster."""

    def __init__(
        self, store: str, specification: dict[str, Any], settings: ExtractionSettings, cpus: int, gpu: bool
    ) -> None:
        from hoca.features.engines.local import Worker

        settings = replace(settings, workers=cpus, device="cuda" if gpu else "cpu")
        self.store = FeatureStore(store)
        self.specification = specification
        self.worker = Worker(self.store, specification, settings).__enter__()

    def __call__(self, batch: Columns) -> Columns:
        videos = [
            VideoFile(os.fsdecode(id), os.fsdecode(path)) for id, path in zip(batch["id"], batch["path"], strict=True)
        ]
        outcomes = []
        waiting = []
        for video in videos:
            # What is there now was put there by a process that died before it could say so.
            header = self.store.current(video.id, self.specification, os.stat(video.file).st_size)
            if header is None:
                waiting.append(video)
            else:
                outcomes.append(Outcome(video, "done", "", header.absent, header.duration))
        outcomes += self.worker.outcomes(waiting)
        return {
            "id": np.array([os.fsencode(outcome.video.id) for outcome in outcomes], dtype=object),
            "status": np.array([outcome.status for outcome in outcomes], dtype=object),
            "why": np.array([outcome.why for outcome in outcomes], dtype=object),
            "absent": np.array([json.dumps(dict(outcome.absent)) for outcome in outcomes], dtype=object),
            "duration": np.array(
                [np.nan if outcome.duration is None else outcome.duration for outcome in outcomes], dtype=np.float64
            ),
        }


def _processes(resources: dict[str, float], gpu: bool) -> int:
    """One model process per GPU; without any, one per two processors, so that decoding and networks overlap."""
    return int(resources["GPU"]) if gpu else max(1, int(resources.get("CPU", 1)) // 2)
