"""What the README tells people to type works: every command and every piece of code in it, at a tiny size."""

from __future__ import annotations

import glob
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path

import pytest

from hoca.cli import main

from .conftest import ROOT, shallow

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(sh|python|json)\n(.*?)```", re.DOTALL)
SIZES = {  # what makes a command quick
    "data prepare binding": "train=4 validation=2 test=3 seconds=2",
    "train binding": "epochs=1 batch_size=8 hidden=8 attention=8 embedding=8",
    "train finetune": "epochs=1 batch_size=1 captions_per_video=2",
    "train msvd": "epochs=1 batch_size=100 captions_per_video=0 hidden=8 attention=8 embedding=8"
    " min_count=100 max_words=5 precision=float32 beam=1",
}


def small(command: str) -> str:
    """The command with the sizes that it states, except zeros, and those that it leaves open made tiny."""
    words = command.split(" ")
    sizes = next((size for name, size in SIZES.items() if f"hoca {name}" in command), "")
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    tiny = {key: value for key, _, value in (size.partition("=") for size in sizes.split()) if given.get(key) != "0"}
    if "--resume" in words and "runs/demo" not in command:
        tiny["epochs"] = "2"  # one more than the run that is resumed
    kept = [word for word in words if word.partition("=")[0] not in tiny]
    end = next((place for place, word in enumerate(kept) if place and word in ("--resume", ">")), len(kept))
    return " ".join([*kept[:end], *(f"{key}={value}" for key, value in tiny.items()), *kept[end:]])


def sections() -> dict[str, list[tuple[str, str]]]:
    """Heading → its blocks (language, text)."""
    parts = re.split(r"^#+ (.*)$", README, flags=re.MULTILINE)
    return {title: BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def demo_commands() -> list[str]:
    """The recipe of `make demo-train` as a shell would see it."""
    recipe = re.search(r"^demo-train:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    clip = re.search(r"^DEMO_CLIP := (.*)$", MAKEFILE, re.MULTILINE)
    assert clip is not None
    lines = [line.strip().lstrip("@") for line in re.sub(r"\\\n\t+", "", recipe[1]).splitlines()]
    meanings = {"$(HOCA)": "hoca", "$(VENV)/bin/python": "python", "$(DEMO_CLIP)": clip[1]}
    for variable, meaning in meanings.items():
        lines = [line.replace(variable, meaning) for line in lines]
    return lines


class Workshop:
    """A folder in which commands run as in the repository, without leaving anything there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"}

    def run(self, command: str) -> str:
        """Run a command at a tiny size; its standard output. What is hoca alone needs no process of its own."""
        whole = small(command)
        words = shlex.split(whole)
        if words[0] == "hoca" and ">" not in words:
            return self.here(main, [name for word in words for name in self.named(word)])
        done = subprocess.run(
            ["bash", "-ec", whole], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{whole}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def named(self, word: str) -> list[str]:
        """The files that a pattern stands for, or the word itself, as in a shell."""
        return sorted(glob.glob(word, root_dir=self.folder)) or [word]

    def here(self, call: Callable[[], object], words: list[str]) -> str:
        """What `call` prints, in this process and the workshop's folder."""
        out, err, code = io.StringIO(), io.StringIO(), None
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", words)
            try:
                call()
            except SystemExit as end:
                code = end.code
        assert not code, f"{words}\n{out.getvalue()}\n{err.getvalue()}"
        return out.getvalue()

    def follow(self, blocks: list[tuple[str, str]]) -> dict[str, str]:
        """Run the commands and code of a section in order; command → what it printed."""
        printed = {}
        for language, text in blocks:
            if language == "sh":
                printed |= {command: self.run(command) for command in text.splitlines()}
            elif language == "python":
                printed[text] = self.here(partial(exec, text, {}), ["-c"])
        return printed


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    with shallow():
        yield Workshop(tmp_path_factory.mktemp("readme"))


@pytest.fixture(scope="module")
def demo(workshop: Workshop) -> dict[str, str]:
    """Everything that `make demo-train` runs, once; command → what it printed."""
    return {command: workshop.run(command) for command in demo_commands()}


@pytest.fixture(scope="module")
def videos(workshop: Workshop, demo: dict[str, str]) -> Path:
    """Somebody's videos: the ids of the README's example captions."""
    folder = workshop.folder / "my-videos"
    folder.mkdir()
    for name, clip in zip(
        ("first", "second", "third"), sorted(workshop.folder.glob("data/demo-clips/videos/*")), strict=True
    ):
        shutil.copy(clip, folder / f"{name}.mp4")
    return folder


def test_the_first_screen_names_the_two_commands() -> None:
    assert sections()["hoca"] == [("sh", "make demo\nmake test\n")]
    assert {"demo", "test"} <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def test_the_demo_scores_captions_and_draws(workshop: Workshop, demo: dict[str, str]) -> None:
    said = "\n".join(demo.values())
    assert "CIDEr" in said
    assert said.count("said:") == said.count("shown:") == 3
    assert (workshop.folder / "demo" / "attention.png").stat().st_size > 1000


def test_a_second_demo_keeps_what_is_done(workshop: Workshop, demo: dict[str, str]) -> None:
    weights = sorted((workshop.folder / "runs" / "demo" / "checkpoint").iterdir())
    before = [file.stat().st_mtime_ns for file in weights]
    prepare, train = (next(c for c in demo if c.startswith(start)) for start in ("hoca data", "hoca train"))
    workshop.run(prepare)
    workshop.run(train)
    assert [file.stat().st_mtime_ns for file in weights] == before


def test_your_own_videos(workshop: Workshop, videos: Path, tmp_path: Path) -> None:
    shutil.move(videos / "third.mp4", tmp_path)  # two tell as much as three
    printed = workshop.follow(sections()["Your own videos"])
    shutil.move(tmp_path / "third.mp4", videos)
    plain, json_lines = (text.splitlines() for text in list(printed.values())[:2])
    assert len(plain) == len(json_lines) == 2
    assert all((workshop.folder / name).is_file() for name in ("report.html", "attention.png"))


def test_your_own_data(workshop: Workshop, videos: Path) -> None:
    blocks = sections()["Your own data"]
    dataset = workshop.folder / "my-dataset"
    dataset.mkdir()
    for captions in (dataset / "captions.jsonl", workshop.folder / "my-captions.jsonl"):
        captions.write_text("".join(text for language, text in blocks if language == "json"))
    workshop.follow([(language, text) for language, text in blocks if "msvd" not in text])
    assert all((workshop.folder / "runs" / run / "checkpoint").is_dir() for run in ("finetune", "mine"))


@pytest.mark.slow
def test_the_benchmarks(workshop: Workshop, shared_data: Path) -> None:
    (workshop.folder / "MSVD").symlink_to(shared_data / "msvd")
    workshop.follow([(language, text) for language, text in sections()["Your own data"] if "msvd" in text])
    assert (workshop.folder / "runs" / "msvd-fast" / "checkpoint").is_dir()


@pytest.mark.slow
def test_train(workshop: Workshop) -> None:
    printed = workshop.follow(sections()["Train"])
    assert "l-hoca-ubt" in printed["hoca models"].split()
    assert {"binding", "unary", "two"} <= {run.name for run in (workshop.folder / "runs").iterdir()}
    assert len((workshop.folder / "runs" / "binding" / "metrics.csv").read_text().splitlines()) == 3  # resumed once


def test_metrics(workshop: Workshop) -> None:
    references = {"a": ["a dog runs", "the dog is running"], "b": ["it rains"]}
    lines = [{"id": id, "captions": captions} for id, captions in references.items()]
    (workshop.folder / "references.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lines = [{"id": id, "caption": captions[0]} for id, captions in references.items()]
    (workshop.folder / "candidates.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (printed,) = workshop.follow(sections()["Metrics"]).values()
    assert re.search(r"ROUGE-L +100.00", printed)


def test_every_command_belongs_to_a_section_that_is_run() -> None:
    tested = {"hoca", "Your own videos", "Your own data", "Train", "Metrics"}
    assert {title for title, blocks in sections().items() if blocks} <= tested


def test_every_page_and_picture_that_is_linked_exists() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "index.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
