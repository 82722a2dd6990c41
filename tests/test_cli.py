"""The command line, and what people get wrong: each mistake ends in one clear line and exit code 2."""

from __future__ import annotations

import gc
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from hoca.captioning import UNSURE
from hoca.checkpoint import Checkpoints, read_checkpoint
from hoca.cli.common import importing_torch
from hoca.data import binding
from hoca.features import FeatureStore
from hoca.training import train

from .categories import CATEGORIES, train_with_categories
from .conftest import Command, Device
from .features.engines.clips import broken_links
from .training.tiny import ENVIRONMENT, rows, tiny, tiny_file, write_dataset

CLIPS = binding.BindingOptions(train=6, validation=2, test=3, captions=2, seconds=1.0, fps=8, picture=32, silent=0.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binding.prepare(tmp_path_factory.mktemp("clips") / "data", CLIPS, videos=True)


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny(data, tmp_path_factory.mktemp("runs") / "run", epochs=2))


@pytest.fixture(scope="module")
def with_categories(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_with_categories(data, tmp_path_factory.mktemp("categories"))


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """A dataset to do harm to."""
    return write_dataset(tmp_path / "data", counts={"train": 6, "validation": 2})


def clip(data: Path, number: int = 0) -> Path:
    return data / "videos" / f"test-{number:05d}.mp4"


class TestCaption:
    def test_one_video_is_one_sentence(self, hoca: Command, data: Path, run: Path) -> None:
        result = hoca("caption", clip(data), "--model", run)
        assert result.code == 0
        assert len(result.out.splitlines()) == 1

    def test_json_has_the_keys_of_the_design(self, hoca: Command, data: Path, run: Path) -> None:
        result = hoca("caption", clip(data, 0), clip(data, 1), "--model", run, "--beam", "3", "--json")
        lines = [json.loads(line) for line in result.out.splitlines()]
        assert [line["video"] for line in lines] == [str(clip(data, 0)), str(clip(data, 1))]
        for line in lines:
            scored = ["text", "logprob", "score", "score_parts"]
            assert list(line) == ["video", *scored, "confidence", "alternatives", "absent", "seconds"]
            assert [list(other) for other in line["alternatives"]] == [scored, scored]
            sentences = [line, *line["alternatives"]]
            assert [each["score"] for each in sentences] == sorted((each["score"] for each in sentences), reverse=True)
            for each in sentences:
                assert each["score"] == pytest.approx(sum(each["score_parts"].values()), abs=2e-4)

    def test_its_help_names_the_confidence_below_which_sentences_are_marked(self, hoca: Command) -> None:
        assert f"below this, {UNSURE:g} by default" in " ".join(hoca("caption", "--help").out.split())

    def test_bad_videos_are_named_and_the_good_ones_done(
        self, hoca: Command, data: Path, run: Path, tmp_path: Path
    ) -> None:
        text = tmp_path / "text.mp4"
        text.write_text("not a video")
        result = hoca("caption", tmp_path / "nosuch.mp4", text, clip(data), "--model", run)
        assert result.code == 1
        assert result.out.startswith(f"{clip(data)}: ")
        complaints = [line for line in result.err.splitlines() if line.startswith("hoca: ")]
        assert len(complaints) == 2
        assert all(
            c.startswith("hoca: ") and name in c for c, name in zip(complaints, ("nosuch.mp4", "text.mp4"), strict=True)
        )
        assert hoca("caption", text, "--model", run).code == 2

    @pytest.mark.parametrize("given", ["", "*.mp4", "gone.mp4 round.mp4 circle.mp4 whole.mp4"])
    def test_a_link_to_nothing_costs_itself(
        self, hoca: Command, data: Path, run: Path, tmp_path: Path, given: str
    ) -> None:
        links = broken_links(tmp_path)
        (tmp_path / "whole.mp4").symlink_to(clip(data))
        result = hoca("caption", *(tmp_path / name for name in given.split() or [""]), "--model", run)
        assert result.code == 1
        assert result.out.startswith(f"{tmp_path / 'whole.mp4'}: ")
        complaints = sorted(line for line in result.err.splitlines() if line.startswith("hoca: "))
        assert len(complaints) == 3
        for link, complaint in zip(sorted(links), complaints, strict=True):
            assert complaint.startswith(f"hoca: {link} is a link whose target is not there")

    def test_a_video_without_sound_says_so(self, hoca: Command, run: Path, data: Path, tmp_path: Path) -> None:
        from hoca import media

        seen = media.read(clip(data))
        media.write(tmp_path / "mute.mp4", seen.frames, 8, None, 16000)
        result = hoca("caption", tmp_path / "mute.mp4", "--model", run, "--json")
        assert result.code == 0
        assert json.loads(result.out)["absent"] == {"audio": "there is no sound in the file"}

    def test_a_limit_is_kept_and_named(self, hoca: Command, run: Path, data: Path, tmp_path: Path) -> None:
        for command in (["caption"], ["explain", "--out", tmp_path / "report.html"]):
            result = hoca(*command, clip(data), "--model", run, "--limit", "bytes=100")
            assert (result.code, result.out) == (2, "")
            assert result.complaint.endswith("more than the limit of 100 bytes")
        assert "nosuch" in hoca("caption", clip(data), "--model", run, "--limit", "nosuch=1").complaint

    def test_a_category_is_told_to_the_model(
        self, hoca: Command, with_categories: Path, data: Path, tmp_path: Path
    ) -> None:
        for category in CATEGORIES:
            result = hoca("caption", clip(data), "--model", with_categories, "--category", category)
            assert (result.code, result.out) == (0, f"{category} again\n")
            chosen = ["--category", category, "--out", tmp_path / "report.html"]
            assert hoca("explain", clip(data), "--model", with_categories, *chosen).out == result.out

    def test_a_category_that_the_model_does_not_know_is_told_once(
        self, hoca: Command, with_categories: Path, run: Path, data: Path, tmp_path: Path
    ) -> None:
        for model, message in (
            (with_categories, "category='music' is unknown to this model: known: news, sport, tv shows"),
            (run, "category='music': this model was trained without categories, leave it out"),
        ):
            for command in (["caption", clip(data, 1)], ["explain", "--out", tmp_path / "report.html"]):
                result = hoca(*command, clip(data, 0), "--model", model, "--category", "music")
                assert (result.code, result.out, result.err) == (2, "", f"hoca: {message}\n")

    def test_what_is_no_model_is_named(self, hoca: Command, data: Path, tmp_path: Path) -> None:
        for model in (tmp_path / "nosuch", tmp_path, clip(data)):
            result = hoca("caption", clip(data), "--model", model)
            assert (result.code, result.out) == (2, "")
            assert str(model) in result.complaint


class TestExplain:
    def test_a_device_that_is_full_ends_in_one_line_and_stays_a_device(
        self, hoca: Command, data: Path, run: Path, device: Device
    ) -> None:
        full = device(7)
        result = hoca("explain", clip(data), "--model", run, "--out", full)
        assert (result.code, result.out) == (2, "")
        assert result.complaint.startswith(f"hoca: no space left on the disk for {full}: ")
        assert len(result.err.splitlines()) == 1
        assert full.is_char_device()

    def test_a_folder_is_no_file_to_write(self, hoca: Command, data: Path, run: Path, tmp_path: Path) -> None:
        result = hoca("explain", clip(data), "--model", run, "--out", tmp_path)
        assert result.code == 2
        assert result.complaint.startswith(f"hoca: {tmp_path} is a folder: ")

    def test_draws_a_figure(self, hoca: Command, data: Path, run: Path, tmp_path: Path) -> None:
        result = hoca("explain", clip(data), "--model", run, "--figure", tmp_path / "figure.pdf")
        assert result.code == 0
        assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")

    def test_another_format_is_refused(self, hoca: Command, data: Path, run: Path, tmp_path: Path) -> None:
        result = hoca("explain", clip(data), "--model", run, "--figure", tmp_path / "figure.doc")
        assert result.code == 2
        assert "must end in .png" in result.complaint


class TestEvaluate:
    def test_prints_scores(self, hoca: Command, run: Path, tmp_path: Path) -> None:
        result = hoca("evaluate", run, "--json", "--beam", "1", "--out", tmp_path / "said.jsonl")
        assert result.code == 0, result.err
        assert set(json.loads((tmp_path / "said.jsonl").read_text().splitlines()[0])) == {"id", "caption"}
        assert {"BLEU-4", "ROUGE-L", "CIDEr"} <= set(json.loads(result.out))
        assert "CIDEr" in hoca("evaluate", run, "--split", "validation").out

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--split", "nosuch"], "split 'nosuch': choose train, validation, test"),
            (["--data", "nosuch"], "no captions file nosuch/captions.jsonl"),
            (["--beam", "0"], "'--beam'"),
            (["--device", "gpu"], "device='gpu' is unknown"),
        ],
    )
    def test_mistakes(self, hoca: Command, run: Path, arguments: list[str], message: str) -> None:
        result = hoca("evaluate", run, *arguments)
        assert result.code == 2
        assert message in result.complaint

    def test_a_folder_without_a_run(self, hoca: Command, tmp_path: Path) -> None:
        result = hoca("evaluate", tmp_path)
        assert result.code == 2
        assert f"{tmp_path} holds no trained model" in result.complaint


class TestTrain:
    def test_a_log_gets_plain_lines(self, hoca: Command, tiny_data: Path, tmp_path: Path) -> None:
        result = hoca("train", tiny_file(tmp_path, tiny_data, tmp_path / "run"), "epochs=1")
        assert result.code == 0
        start, epoch, end = result.err.splitlines()
        assert "24 videos to learn from" in start
        assert epoch.startswith("epoch 1/1  loss ")
        assert "CIDEr" in epoch
        assert "at most 0 s left" in epoch
        assert end == f"the run is in {tmp_path / 'run'}: hoca evaluate {tmp_path / 'run'}"
        assert result.out == ""
        assert "\x1b" not in result.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["epoch=1"], "the command line: there is no key 'epoch': did you mean 'epochs'?"),
            (["model=l-hoca-ubtt"], "there is no model 'l-hoca-ubtt': did you mean 'l-hoca-ubt'?"),
            (["modalities=[image, sound]"], "no modality 'sound'"),
            (["word_vectors=nosuch.bin"], "no word vectors nosuch.bin"),
            (["vectors=nosuch.bin"], "the command line: 'vectors' is now 'data.word_vectors'"),
            (["data=nosuch"], "no captions file nosuch/captions.jsonl"),
            (["model=sa-lstm", "rank=2"], "the command line: sa-lstm has no option model.rank: "),
            (["orders=[9]"], "orders=[9] leave no attention"),
            (["--nosuch"], "No such option: --nosuch"),
        ],
    )
    def test_a_typo(self, hoca: Command, tiny_data: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
        result = hoca("train", tiny_file(tmp_path, tiny_data, tmp_path / "run"), *arguments)
        assert result.code == 2
        assert message in result.complaint
        assert len(result.err.splitlines()) == 1

    def test_a_typo_in_the_file(self, hoca: Command, tmp_path: Path) -> None:
        (tmp_path / "recipe.yaml").write_text("learning_rat: 1e-4\n")
        result = hoca("train", tmp_path / "recipe.yaml")
        assert result.code == 2
        assert (
            f"{tmp_path}/recipe.yaml: there is no key 'learning_rat': did you mean 'learning_rate'?" in result.complaint
        )

    def test_a_feature_file_of_the_wrong_width(self, hoca: Command, spoiled: Path, tmp_path: Path) -> None:
        store = FeatureStore(spoiled / "features")
        specification = store.header("train-01").specification
        store.write("train-01", {"image": np.ones((4, 9))}, specification=specification)
        recipe = tiny_file(tmp_path, spoiled, tmp_path / "run")
        result = hoca("train", recipe)
        assert result.code == 2
        assert "train-01.safetensors: image features are 9 wide, expected 6" in result.complaint
        result = hoca("train", recipe, "on_problem=skip", "epochs=1")
        assert result.code == 0
        assert "skipped 1 × feature file of the wrong width" in result.err

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "captions.jsonl is empty"),
            (b"\n\n", "captions.jsonl is empty"),
            ('{"id": "a", "split": "train", "captions": ["un caf\xe9"]}'.encode("latin-1"), "line 1: byte 0xe9"),
            ('{"id": "a"}'.encode("utf-16"), "is UTF-16: save it as UTF-8"),
            (b'{"id": "a", "split": "train", "captions": []}', "video a has no captions"),
        ],
    )
    def test_captions_that_cannot_be_read(
        self, hoca: Command, spoiled: Path, tmp_path: Path, content: bytes, message: str
    ) -> None:
        (spoiled / "captions.jsonl").write_bytes(content)
        result = hoca("train", tiny_file(tmp_path, spoiled, tmp_path / "run"))
        assert result.code == 2
        assert message in result.complaint

    def test_a_checkpoint_of_another_vocabulary(self, hoca: Command, spoiled: Path, tmp_path: Path) -> None:
        recipe = tiny_file(tmp_path, spoiled, tmp_path / "run")
        assert hoca("train", recipe, "epochs=1").code == 0
        captions = spoiled / "captions.jsonl"
        captions.write_text(captions.read_text().replace("thing", "object"))
        result = hoca("train", recipe, "--resume")
        assert result.code == 2
        assert "another vocabulary than the captions of" in result.complaint

    def test_a_loss_that_is_not_finite(self, hoca: Command, tiny_data: Path, tmp_path: Path) -> None:
        result = hoca("train", tiny_file(tmp_path, tiny_data, tmp_path / "run"), "learning_rate=1e36")
        assert result.code == 2
        assert "in the batch of train-" in result.complaint

    def test_a_folder_that_cannot_be_made(self, hoca: Command, tiny_data: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        result = hoca("train", tiny_file(tmp_path, tiny_data, tmp_path / "run"), f"run={tmp_path / 'file' / 'run'}")
        assert result.code == 2
        assert str(tmp_path / "file") in result.complaint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if not made or made.returncode:
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_nothing(hoca: Command, tiny_data: Path, tmp_path: Path, small_disk: Path) -> None:
    recipe = tiny_file(tmp_path, tiny_data, small_disk / "run", checkpoint_every=2)
    assert hoca("train", recipe, "epochs=1").code == 0
    before = {path: path.read_bytes() for path in Checkpoints(small_disk / "run").newest()}
    with open(small_disk / "ballast", "wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    result = hoca("train", recipe, "--resume")
    assert result.code == 2
    assert "no space left on the disk" in result.complaint.lower().replace("device", "the disk")
    assert {path: path.read_bytes() for path in Checkpoints(small_disk / "run").newest()} == before
    (small_disk / "ballast").unlink()
    assert hoca("train", recipe, "--resume").code == 0
    assert hoca("train", recipe, f"run={tmp_path / 'whole'}").code == 0
    assert rows(small_disk / "run") == rows(tmp_path / "whole")
    mine, whole = (read_checkpoint(Checkpoints(run).best).tensors for run in (small_disk / "run", tmp_path / "whole"))
    assert all(bool((mine[name] == whole[name]).all()) for name in whole)


def test_data_prepare_takes_options(hoca: Command, tmp_path: Path) -> None:
    result = hoca(
        "data", "prepare", "binding", "train=2", "validation=0", "test=1", "seconds=1", "--out", tmp_path / "d"
    )
    assert result.code == 0
    assert len((tmp_path / "d" / "captions.jsonl").read_text().splitlines()) == 3
    result = hoca("data", "prepare", "binding", "trian=2", "--out", tmp_path / "e")
    assert result.code == 2
    assert "did you mean 'train'?" in result.complaint
    result = hoca("data", "prepare", "msvd", "--out", tmp_path / "e")
    assert result.code == 2
    assert "--source" in result.complaint


def test_models_are_listed(hoca: Command) -> None:
    result = hoca("models", "l-*")
    assert result.code == 0
    rows = result.out.splitlines()
    assert [row.split()[0] for row in rows] == ["l-hoca-b", "l-hoca-t", "l-hoca-ub", "l-hoca-ubt"]
    assert re.fullmatch(r"l-hoca-ubt +\d+\.\d M  unary, binary and ternary Low-Rank HOCA \(Jin et al\..*\)", rows[-1])
    assert "Yao et al." in hoca("models", "sa-lstm").out
    assert hoca("models", "nosuch-*").out == ""


def test_a_reader_that_goes_away_is_no_error(data: Path, run: Path) -> None:
    """`hoca … | head -1`: the pipe is closed while there is more to say."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hoca", "caption", *[str(clip(data))] * 4, "--model", str(run), "--json"],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, 1)


def test_the_decoding_process_starts_before_torch_is_imported(data: Path, run: Path) -> None:
    """Each takes a while, so they do it at the same time."""
    code = (
        "import sys\nstarted = []\n"
        "def heard(event, _):\n    if event == 'subprocess.Popen': started.append('torch' in sys.modules)\n"
        "sys.addaudithook(heard)\n"
        "from hoca.cli import _run\n"
        f"sys.argv = ['hoca', 'caption', {str(clip(data))!r}, '--model', {str(run)!r}]\n"
        "assert _run() == 0\n"
        "assert started == [False], started"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)


def test_garbage_is_looked_for_again_after_torch_is_imported() -> None:
    gc.unfreeze()
    before = gc.get_freeze_count()
    with suppress(ImportError), importing_torch():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled()
    assert gc.get_freeze_count() > before


def test_a_terminal_gets_a_bar_with_loss_cider_and_time_left(tiny_data: Path, tmp_path: Path) -> None:
    import os
    import pty

    recipe = tiny_file(tmp_path, tiny_data, tmp_path / "run", epochs=2, batch_size=2)
    terminal, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hoca", "train", str(recipe)],
        **{"stdin": theirs, "stdout": theirs, "stderr": theirs},
        env=ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # the other side is gone
            break
    os.close(terminal)
    assert process.wait() == 0
    text = shown.decode()
    assert "epoch 2/2" in text
    assert "━" in text
    for part in (r"\d+/24", r"loss \d", r"CIDEr \d+\.\d, best \d+\.\d", r"\d:\d\d:\d\d.*left"):
        assert re.search(part, text), part
