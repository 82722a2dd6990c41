"""Files that are damaged, hostile, or no files at all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from hoca import media
from hoca.errors import UserError

from . import making

EVERY = {"all": media.Pictures(range)}


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return making.video(tmp_path / "clip.mp4", "libx264", making.moving_square(10))


def complaint(path: Path) -> str:
    with pytest.raises(UserError) as raised:
        media.decode(media.Request(path, EVERY, 16000))
    line = str(raised.value)
    assert line.isprintable()
    return line


def playlists(clip: Path) -> dict[str, str]:
    """Real lists that FFmpeg follows if nobody stops it."""
    return {
        "hls.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\n{clip}\n#EXT-X-ENDLIST\n",
        "relative.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\nclip.mp4\n#EXT-X-ENDLIST\n",
        "network.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
        "descriptor.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\nfd:\n#EXT-X-ENDLIST\n",
        "list.ffconcat": f"ffconcat version 1.0\nfile {clip.name}\n",
        "session.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"
        "a=rtpmap:96 H264/90000\n",
        "subtitles.idx": "# VobSub index file, v7 (do not modify this line!)\ntimestamp: 00:00:00:000, filepos: 0\n",
        "manifest.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
        f"<AdaptationSet><Representation><BaseURL>{clip}</BaseURL></Representation></AdaptationSet></Period></MPD>",
        "picture.svg": f'<svg xmlns="http://www.w3.org/2000/svg"><image href="file://{clip}"/></svg>',
    }


def test_a_list_that_points_elsewhere_is_refused_under_any_name(clip: Path) -> None:
    for name, content in playlists(clip).items():
        for disguise in (name, f"{name}.mp4"):
            path = clip.with_name(disguise)
            path.write_text(content)
            assert disguise in complaint(path)


def test_ffmpeg_itself_would_follow_such_a_list(clip: Path) -> None:
    """Otherwise the test above would show nothing."""
    import av

    for name in ("hls.m3u8", "list.ffconcat"):
        path = clip.with_name(name)
        path.write_text(playlists(clip)[name])
        with av.open(str(path), options={"allowed_extensions": "ALL", "extension_picky": "0"}) as container:
            assert len(list(container.decode(video=0))) == 10


def test_no_connection_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/a.mp4"
        (tmp_path / "a.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\n{address}\n#EXT-X-ENDLIST\n")
        complaint(tmp_path / "a.m3u8")
        complaint(Path(address))
        with pytest.raises(TimeoutError):
            server.accept()


NAMES = [
    b"two\nlines.mp4",
    b"-i.mp4",
    b"\xff\xfe\x80.mp4",
    b"concat:clip.mp4|clip.mp4",
    b"pipe:0",
    b"fd:",
    b"a%03d.jpg",
    b"[a-z]*.mp4",
    b"$(touch x);`id`.mp4",
    "видео 🎬.mp4".encode(),
]


@pytest.mark.parametrize(
    "name",
    NAMES,
)
def test_a_name_is_only_a_name(clip: Path, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    content = clip.read_bytes()
    monkeypatch.chdir(clip.parent)
    path = Path(os.fsdecode(name))
    assert "not there" in complaint(path)
    path.write_bytes(content)
    with media.Decoders(1) as decoders:
        assert decoders.decode(media.Request(path, EVERY)).frames == 10
    path.write_bytes(b"nothing")
    complaint(path)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    assert "a folder" in complaint(tmp_path)
    os.mkfifo(tmp_path / "pipe.mp4")
    assert "not a regular file" in complaint(tmp_path / "pipe.mp4")
    assert "not a regular file" in complaint(Path("/dev/zero"))
    (tmp_path / "loop").symlink_to("loop")
    assert "links in a circle" in complaint(tmp_path / "loop")
    assert "cannot be opened" in complaint(tmp_path / "null\0byte.mp4")
    assert "cannot be opened" in complaint(tmp_path / ("long" * 100))


NO_VIDEOS = [
    ("empty.mp4", b"", "empty"),
    ("text.mp4", b"this is a text file\n" * 20, "not a video"),
    ("garbage.mp4", np.random.default_rng(0).bytes(20_000), "not a video|no picture|cannot be decoded"),
    ("zeros.mp4", bytes(5000), "not a video"),
    ("page.mp4", b"<html><body>404 Not Found</body></html>", "not a video"),
    ("words.srt", b"1\n00:00:01,000 --> 00:00:02,000\nwords\n", "no picture"),
]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    NO_VIDEOS,
)
def test_what_is_no_video_gives_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    line = complaint(tmp_path / name)
    assert name in line
    assert any(part in line for part in message.split("|"))


@pytest.mark.parametrize("name", ["a.mkv", "a.ts", "a.avi", "a.flv"])
def test_a_cut_file_gives_the_frames_that_are_there(tmp_path: Path, name: str) -> None:
    codec = {"a.mkv": "libx264", "a.ts": "mpeg2video", "a.avi": "mpeg4", "a.flv": "flv"}[name]
    frames = making.numbered(40, 64, 128) // 2 + np.random.default_rng(0).integers(0, 99, (40, 64, 128, 1), np.uint8)
    whole = making.video(tmp_path / name, codec, frames, options={"q": "3"}, rate=25).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    found = media.decode(media.Request(tmp_path / name, {"ends": media.Pictures(media.Spread(2)), **EVERY}))
    assert 4 <= found.frames <= 32
    assert [making.number_on(frame) for frame in found.pictures["all"][:4]] == list(range(4))
    (tmp_path / name).write_bytes(whole[:20])
    complaint(tmp_path / name)


def test_a_song_with_a_cover_has_no_picture(tmp_path: Path) -> None:
    """The cover is not the video: a clip of it would be captioned as one."""
    making.sound(tmp_path / "plain.mp3", "libmp3lame", making.tone(1)[None])
    from PIL import Image

    Image.fromarray(making.moving_square(1)[0]).save(tmp_path / "cover.png")
    picture = (tmp_path / "cover.png").read_bytes()
    body = b"\0image/png\0\x03\0" + picture
    frame = b"APIC" + len(body).to_bytes(4, "big") + b"\0\0" + body
    size = bytes(len(frame) >> shift & 127 for shift in (21, 14, 7, 0))
    (tmp_path / "song.mp3").write_bytes(b"ID3\x03\0\0" + size + frame + (tmp_path / "plain.mp3").read_bytes())
    found = media.decode(media.Request(tmp_path / "song.mp3", EVERY, 16000))
    assert found.absent == {"picture": "there is no picture in the file"}


def test_a_picture_that_claims_to_be_huge(tmp_path: Path) -> None:
    making.huge_picture(tmp_path / "bomb.png")
    assert "bomb.png" in complaint(tmp_path / "bomb.png")
