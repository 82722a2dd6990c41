"""References, predictions and word lists that several metric tests share."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from hoca import assets
from hoca.errors import UserError
from hoca.metrics import Evaluator
from hoca.metrics.language import Language
from hoca.metrics.meteor import english


@pytest.fixture(scope="session")
def language() -> Language:
    """METEOR's English; tests that need it skip where it is neither cached nor to be had."""
    try:
        assets.path("meteor-en")
    except UserError as error:
        pytest.skip(f"needs METEOR's word lists: {error}")
    return english()


@pytest.fixture(scope="session")
def test_references(shared_data: Path) -> dict[str, dict[int, list[str]]]:
    """Captions of the test videos of both datasets, by number."""
    msrvtt: dict[int, list[str]] = {}
    with zipfile.ZipFile(shared_data / "msrvtt" / "test_videodatainfo.json.zip") as archive:
        for entry in json.loads(archive.read("test_videodatainfo.json"))["sentences"]:
            msrvtt.setdefault(int(entry["video_id"].removeprefix("video")), []).append(entry["caption"])
    msvd: dict[int, list[str]] = {}
    with zipfile.ZipFile(shared_data / "msvd" / "sents_lc_nopunc.zip") as archive:
        for line in archive.read("sents_test_lc_nopunc.txt").decode().splitlines():
            video, caption = line.split("\t")
            msvd.setdefault(int(video.removeprefix("vid")), []).append(caption)
    return {"msrvtt": msrvtt, "msvd": msvd}


@pytest.fixture(scope="session")
def evaluators(test_references: dict[str, dict[int, list[str]]]) -> dict[str, Evaluator]:
    """One evaluator per dataset, its references prepared once for all tests."""
    return {name: Evaluator(references) for name, references in test_references.items()}
