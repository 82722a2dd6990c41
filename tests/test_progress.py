from __future__ import annotations

import pytest

from hoca.progress import say, track


def test_a_log_gets_a_line_now_and_then_and_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", total=3, what="letters", every=0.0)) == ["a", "b", "c"]
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["letters: 1 of 3", "letters: 2 of 3", "letters: 3 of 3"]
    assert captured.out == ""
    list(track("abc", total=3, what="letters"))
    assert capsys.readouterr().err == ""


def test_a_line_is_one_line_and_keeps_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    line = "key=[1, 2] [bold] " + "word " * 100
    say(line)
    assert capsys.readouterr().err == line + "\n"
