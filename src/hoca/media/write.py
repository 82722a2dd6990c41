"""Write pictures and sound as an MP4 file: H.264 and AAC."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from hoca.errors import UserError
from hoca.files import replacing


def write(
    path: Path | str, frames: np.ndarray, fps: float, waveform: np.ndarray | None = None, rate: int = 16000
) -> None:
    """Frames uint8 RGB [F, height, width, 3] at `fps`, and mono sound float [samples] at `rate` if there is any."""
    import av

    path = Path(path)
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or not len(frames):
        raise UserError(f"{path}: frames are {frames.dtype} {list(frames.shape)}, expected uint8 [F, height, width, 3]")
    height, width = frames.shape[1:3]
    if height % 2 or width % 2:
        raise UserError(f"{path}: a picture of {width}×{height}; H.264 needs an even width and height")
    with replacing(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        picture_stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1001))
        picture_stream.width, picture_stream.height, picture_stream.pix_fmt = width, height, "yuv420p"
        # One thread and no macroblock tree (x264's reads memory it never wrote): the same pictures, the same bytes.
        picture_stream.codec_context.thread_count = 1
        picture_stream.options = {"crf": "20", "preset": "veryfast", "x264-params": "mbtree=0"}
        sound_stream = None if waveform is None else container.add_stream("aac", rate=rate, layout="mono")
        for picture in frames:
            container.mux(picture_stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(picture_stream.encode(None))
        if waveform is not None and sound_stream is not None:
            samples = np.ascontiguousarray(waveform, dtype=np.float32)[None]  # [1, samples]
            sound = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = rate, 0, Fraction(1, rate)
            container.mux(sound_stream.encode(sound))
            container.mux(sound_stream.encode(None))
