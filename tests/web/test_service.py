"""What the page does with a file, without the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.web.serve import ServeSettings
from hoca.web.service import Service

from ..explain.trained import clips
from ..media import making


def test_stages_are_told_as_they_begin(data: Path, run: Path) -> None:
    stages: list[str] = []
    with Service([run], ServeSettings().limits()) as service:
        explained = service.explain(clips(data, silent=False)[0], "bound", 2, stages.append)
    assert stages == ["decoding", "features", "words", "report"]
    assert explained.captions[0].words


def test_models_of_one_name_are_told_apart_or_refused(run: Path) -> None:
    with pytest.raises(UserError, match="called alike"):
        Service([run, run / "checkpoint" / "best.safetensors"], ServeSettings().limits())


def test_messages_name_the_file_and_no_folder(run: Path, tmp_path: Path) -> None:
    with Service([run], ServeSettings().limits()) as service:
        with pytest.raises(UserError) as told:
            service.caption(tmp_path / "nosuch.mp4", "bound", 2)
        assert "nosuch.mp4" in str(told.value)
        assert str(tmp_path) not in str(told.value)
        with pytest.raises(UserError, match="did you mean 'bound'"):
            service.caption(tmp_path / "nosuch.mp4", "bond", 2)


def test_a_film_is_captioned_in_segments_within_the_limits(run: Path, tmp_path: Path) -> None:
    film = making.video(tmp_path / "film.mp4", "libx264", making.moving_square(30), rate=5)
    told: list[tuple[float, float]] = []
    with Service([run], ServeSettings(seconds=8).limits()) as service:
        segments = service.film(film, "bound", 2, every=2, done=lambda second, total: told.append((second, total)))
        assert [second for second, _ in told] == pytest.approx([2.0, 4.0, 6.0], abs=0.1)
        assert (segments[0].start, segments[-1].end) == (0.0, pytest.approx(6.0, abs=0.1))
        assert all(each.content["captions"][0]["text"] == each.text for each in segments)
    too_long = r"^film\.mp4 plays for 0:06, longer than the limit of 0:03$"
    with Service([run], ServeSettings(seconds=3).limits()) as service, pytest.raises(UserError, match=too_long):
        service.film(film, "bound", 2, every=2)
