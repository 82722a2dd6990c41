from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoca import media
from hoca.data import binding
from hoca.data.binding.scene import COLOURS, KINDS, MOTIONS, SOUND_OF, SPLITS
from hoca.data.binding.words import HEARD, SILENT
from hoca.errors import UserError
from hoca.features import FeatureStore, light_specification

SMALL = binding.BindingOptions(train=6, validation=2, test=2, silent=0.3)

options = st.builds(
    binding.BindingOptions,
    distractors=st.integers(0, 4),
    overlap=st.floats(0, 0.9),
    noise=st.floats(0, 0.2),
    silent=st.sampled_from([0.0, 0.5, 1.0]),
    seconds=st.floats(1, 6),
    fps=st.integers(4, 15),
    picture=st.sampled_from([32, 64, 70]),
    seed=st.integers(0, 2**63),
)


def scene_of(chosen: binding.BindingOptions, number: int = 0, split: str = "train") -> binding.Scene:
    return binding.draw(binding.generator(chosen, split, number), chosen)


@settings(max_examples=40, deadline=None)
@given(options, st.integers(0, 1000))
def test_things_differ_in_everything_and_stay_in_the_clip(chosen: binding.BindingOptions, number: int) -> None:
    scene = scene_of(chosen, number)
    assert len(scene.things) == chosen.distractors + 1
    for names in zip(*((thing.kind, thing.colour, thing.motion) for thing in scene.things), strict=True):
        assert len(set(names)) == len(scene.things)
    for thing in scene.things:
        assert 0 <= thing.start < thing.end <= chosen.seconds
    for earlier, later in zip(scene.things, scene.things[1:], strict=False):
        assert earlier.start < later.start
        if not chosen.overlap:
            assert earlier.end <= later.start
    if scene.sound is None:
        assert scene.told == 0
        assert "sound" not in scene.attributes
    else:
        assert scene.sound.name == SOUND_OF[scene.things[scene.told].kind]
        assert scene.sound.start + scene.sound.seconds <= chosen.seconds


@settings(max_examples=25, deadline=None)
@given(options)
def test_any_options_render_to_a_clip(chosen: binding.BindingOptions) -> None:
    scene = scene_of(chosen)
    clip = binding.render(scene, chosen)
    assert clip.frames.shape[1:] == (chosen.picture, chosen.picture, 3)
    assert len(clip.frames) == len(clip.times) == round(chosen.seconds * chosen.fps)
    assert (clip.waveform is None) == (scene.sound is None)
    if clip.waveform is not None:
        assert len(clip.waveform) == round(chosen.seconds * clip.rate)
        assert 0.2 < np.abs(clip.waveform).max() <= 1


def test_what_is_told_is_what_is_shown() -> None:
    chosen = binding.BindingOptions(noise=0, silent=0)
    for number in range(40):
        scene = scene_of(chosen, number)
        clip = binding.render(scene, chosen)
        for thing in scene.things:
            seen = np.flatnonzero((clip.times >= thing.start) & (clip.times < thing.end))
            colour = np.array(COLOURS[thing.colour])
            covered = np.abs(clip.frames[seen].astype(int) - colour).max(-1) < 30  # [f, P, P]
            assert covered.any((1, 2)).all()
            assert not covered[:, [0, -1]].any(), "the thing stays inside the picture"
            assert not covered[:, :, [0, -1]].any()
            area = covered.sum((1, 2))
            centre = np.stack([np.argwhere(picture).mean(0) for picture in covered])  # [f, 2], row and column
            down, right = centre[-1] - centre[0]
            expected = {
                "left": right < -10,
                "right": right > 10,
                "up": down < -10,
                "down": down > 10,
                "growing": area[-1] > 1.5 * area[0],
                "shrinking": area[-1] < area[0] / 1.5,
                "shaking": (np.diff(np.sign(np.diff(centre[:, 1]))) != 0).sum() > 3 and np.ptp(centre[:, 1]) > 3,
            }
            assert expected[thing.motion], thing


def test_seeing_alone_cannot_tell_which_thing_is_heard() -> None:
    """Neither its place in the order nor its time, nor any word about it, says which thing the caption tells of."""
    chosen = binding.BindingOptions(silent=0)
    scenes = [scene_of(chosen, number) for number in range(1500)]
    assert abs(np.mean([scene.told for scene in scenes]) - 0.5) < 0.05
    for attribute, names in (("kind", KINDS), ("colour", COLOURS), ("motion", MOTIONS)):
        for name in names:
            told = [getattr(s.things[s.told], attribute) == name for s in scenes if _shows(s, attribute, name)]
            assert abs(np.mean(told) - 0.5) < 0.12, name
    middle = [scene.sound.start + scene.sound.seconds / 2 for scene in scenes if scene.sound]
    seen = [(scene.things[scene.told].start + scene.things[scene.told].end) / 2 for scene in scenes]
    assert abs(np.corrcoef(middle, seen)[0, 1]) < 0.1


def _shows(scene: binding.Scene, attribute: str, name: str) -> bool:
    return any(getattr(thing, attribute) == name for thing in scene.things)


def test_the_colour_is_said_before_anything_that_gives_the_thing_away() -> None:
    for phrasing in (*HEARD, *SILENT):
        assert phrasing.index("{colour}") < phrasing.index("{kind}")
        assert phrasing.find("{sound}") in (-1, *range(phrasing.index("{colour}"), 200))
    assert all("{sound}" in phrasing for phrasing in HEARD)
    assert not any("{sound}" in phrasing for phrasing in SILENT)
    assert all("{moving}" in phrasing for phrasing in (*HEARD, *SILENT))


def test_no_word_belongs_to_two_attributes_or_to_the_grammar() -> None:
    words = [word for lexicon in binding.LEXICON.values() for word in lexicon]
    assert len(set(words)) == len(words)
    grammar = " ".join((*HEARD, *SILENT, "moving")).split()
    assert not set(words) & set(grammar)


@settings(max_examples=30, deadline=None)
@given(options, st.integers(1, 6))
def test_every_phrasing_names_every_attribute(chosen: binding.BindingOptions, count: int) -> None:
    scene = scene_of(chosen)
    captions = binding.sentences(scene, np.random.default_rng(0), count)
    assert len(set(captions)) == count
    for caption in captions:
        accuracy = binding.attribute_accuracy({"v": caption}, {"v": scene.attributes})
        assert accuracy == dict.fromkeys(scene.attributes, 1.0)


def test_accuracy_counts_the_first_word_of_each_lexicon() -> None:
    truth = {
        "a": {"colour": "red", "kind": "circle", "motion": "left", "sound": "bell"},
        "b": {"colour": "blue", "kind": "star", "motion": "growing"},
    }
    candidates = {"a": "A red square, not a circle, is moving left.", "c": "a blue star"}
    assert binding.attribute_accuracy(candidates, truth) == {"colour": 0.5, "kind": 0, "motion": 0.5, "sound": 0}
    assert binding.attribute_accuracy({}, {}) == {}
    with pytest.raises(UserError, match="unknown attribute 'size'"):
        binding.attribute_accuracy({}, {"a": {"size": "large"}})


def test_splits_and_seeds_share_no_clip() -> None:
    scenes = {
        (scene_of(replace(SMALL, seed=seed), number, split))
        for seed in (0, 1)
        for split in SPLITS
        for number in range(20)
    }
    assert len({scene.grain for scene in scenes}) == 2 * 3 * 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"overlap": 1.5},
        {"noise": -1},
        {"distractors": 6},
        {"picture": 65},
        {"train": -1},
        {"fps": 7.5},
        {"captions": 9},
    ],
)
def test_an_option_out_of_range_names_itself(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"binding option {next(iter(wrong))}="):
        binding.BindingOptions(**wrong)  # type: ignore[arg-type]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("videos", [False, True])
def test_a_dataset_is_the_same_bytes_every_time(tmp_path: Path, videos: bool) -> None:
    once, twice = binding.prepare(tmp_path / "a", SMALL, videos), binding.prepare(tmp_path / "b", SMALL, videos)
    assert content(once) == content(twice)


def test_several_processes_make_the_same_bytes(tmp_path: Path) -> None:
    larger = replace(SMALL, train=101)  # several parts
    alone, together = binding.prepare(tmp_path / "a", larger), binding.prepare(tmp_path / "b", larger, workers=2)
    assert content(alone) == content(together)


def test_the_folder_holds_captions_features_and_videos(tmp_path: Path) -> None:
    out = binding.prepare(tmp_path / "binding", SMALL, videos=True)
    lines = [json.loads(line) for line in (out / "captions.jsonl").read_text().splitlines()]
    assert [line["split"] for line in lines] == ["train"] * 6 + ["validation"] * 2 + ["test"] * 2
    assert lines[3]["id"] == "train-00003"
    store = FeatureStore(out / "features")
    assert store.ids() == sorted(line["id"] for line in lines)
    assert store.specification == light_specification()
    assert list(store.widths) == ["image", "motion", "audio"]
    silent = [line["id"] for line in lines if "sound" not in line["attributes"]]
    assert 0 < len(silent) < 10
    for line in lines:
        clip = media.read(out / "videos" / f"{line['id']}.mp4")
        assert len(clip.frames) == 40
        assert (clip.waveform is None) == (line["id"] in silent) == ("audio" not in store[line["id"]])
        assert len(line["captions"]) == 5
    assert "no sound" in store.header(silent[0]).absent["audio"]


def test_features_of_files_are_close_to_those_of_arrays(tmp_path: Path) -> None:
    filed = FeatureStore(binding.prepare(tmp_path / "files", SMALL, videos=True) / "features")
    direct = FeatureStore(binding.prepare(tmp_path / "arrays", SMALL) / "features")
    for id in direct.ids():
        assert list(filed[id]) == list(direct[id])
        for name, values in direct[id].items():
            assert np.corrcoef(values.ravel(), filed[id][name].ravel())[0, 1] > 0.93, (id, name)


def test_what_is_done_is_kept_and_what_is_missing_damaged_or_stale_is_made(tmp_path: Path) -> None:
    out = binding.prepare(tmp_path / "binding", SMALL)
    before = content(out)
    kept, lost = out / "features" / "train-00000.safetensors", out / "features" / "test-00001.safetensors"
    lost.unlink()
    cut = out / "features" / "train-00001.safetensors"
    cut.write_bytes(cut.read_bytes()[:-9])
    FeatureStore(out / "features").write("train-00002", {"image": np.ones((1, 1))}, specification={"image": "other"})
    (out / "captions.jsonl").unlink()
    written = kept.stat().st_mtime_ns
    binding.prepare(out, SMALL)
    assert content(out) == before
    assert kept.stat().st_mtime_ns == written


def test_a_folder_with_other_options_is_not_mixed(tmp_path: Path) -> None:
    out = binding.prepare(tmp_path / "binding", SMALL)
    with pytest.raises(UserError, match=r"noise=0.03 \(now 0.1\)"):
        binding.prepare(out, replace(SMALL, noise=0.1))
    with pytest.raises(UserError, match=r"videos=False \(now True\)"):
        binding.prepare(out, SMALL, videos=True)
    (out / "binding.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        binding.prepare(out, SMALL)
    (out / "binding.json").unlink()
    with pytest.raises(UserError, match="another dataset"):
        binding.prepare(out, SMALL)


def test_feature_mode_needs_no_codec(tmp_path: Path) -> None:
    """In a fresh interpreter whose import of PyAV fails."""
    program = (
        "import sys; sys.modules['av'] = None\n"
        "from hoca.data import binding\n"
        f"binding.prepare({str(tmp_path / 'out')!r}, binding.BindingOptions(train=1, validation=0, test=0))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "out" / "features" / "train-00000.safetensors").is_file()


def test_a_clip_is_drawn_again_from_its_folder_and_id(tmp_path: Path) -> None:
    out = binding.prepare(tmp_path / "out", SMALL)
    assert binding.read_options(out) == SMALL
    for line in map(json.loads, (out / "captions.jsonl").read_text().splitlines()):
        assert binding.scene_of(SMALL, line["id"]).attributes == line["attributes"]
    for wrong in ("video7", "test-x"):
        with pytest.raises(UserError, match=f"{wrong} is no clip"):
            binding.scene_of(SMALL, wrong)
    with pytest.raises(UserError, match="does not say how"):
        binding.read_options(tmp_path)


@settings(max_examples=30, deadline=None)
@given(options, st.integers(0, 1000))
def test_moments_are_those_of_the_thing_told_of(chosen: binding.BindingOptions, number: int) -> None:
    scene = scene_of(chosen, number)
    thing, found = scene.things[scene.told], binding.moments(scene)
    assert found.told["image"] == found.told["motion"] == ((thing.start, thing.end),)
    assert len(found.others["image"]) == chosen.distractors
    if scene.sound:
        clip, ((start, end),) = binding.render(scene, replace(chosen, noise=0)), found.told["audio"]
        heard = np.flatnonzero(np.abs(clip.waveform) > 1e-3) / clip.rate
        assert start - 1e-3 <= heard[0] <= heard[-1] <= end + 1e-3
    else:
        assert found.told["audio"] == ()
    clock = binding.clock(scene, chosen)
    assert clock.frames == round(chosen.seconds * chosen.fps)
    assert (clock.heard > 0) == (scene.sound is not None)
