"""Audio frames of any format gathered into one mono waveform."""

from __future__ import annotations

from typing import Any

import numpy as np

from hoca.media.streams import seconds

LOUDEST = 64.0  # where 1 is full scale; floats of a damaged file are up to 1e38, and their power is infinite


class Waveform:
    """The mean of the channels, float32, at `rate` samples a second, at most `most` seconds of it."""

    def __init__(self, rate: int, most: float) -> None:
        self.rate = rate
        self.most = int(most * rate)
        self.pieces: list[np.ndarray] = []
        self.samples = 0
        self.start: float | None = None  # presentation time of the first sample
        self.source: tuple[Any, ...] = ()
        self.unpacker: Any = None  # to float32
        self.resampler: Any = None

    def add(self, frame: Any) -> None:
        if self.start is None:
            self.start = seconds(frame.pts, frame.time_base) or 0.0
        source = (frame.format.name, frame.layout.name, frame.sample_rate)
        if source != self.source:  # a stream may change its format on the way
            self._finish()
            self._prepare(frame)
            self.source = source
        frame.pts = None
        for piece in self.unpacker.resample(frame):
            self._resample(piece)

    @property
    def full(self) -> bool:
        spare = 10 * self.rate  # what comes before the first picture is cut in the end
        return self.samples >= self.most + spare

    def waveform(self, picture_start: float | None) -> np.ndarray | None:
        """Sound from the first picture on: what is earlier is cut, a later start is filled with silence."""
        if self.start is None:
            return None
        self._finish()
        samples = np.concatenate(self.pieces) if self.pieces else np.zeros(0, np.float32)
        lead = 0 if picture_start is None else round((self.start - picture_start) * self.rate)
        if abs(lead) >= max(self.most, 1):  # such a clock is wrong
            lead = 0
        samples = np.pad(samples, (lead, 0)) if lead > 0 else samples[-lead:]
        return np.nan_to_num(samples[: self.most], copy=False).clip(-LOUDEST, LOUDEST)

    def _prepare(self, frame: Any) -> None:
        import av

        # All channels in one plane: with eight planes or more PyAV reads beyond their list and crashes.
        self.unpacker = av.AudioResampler(format="flt", layout=frame.layout, rate=frame.sample_rate)
        self.resampler = av.AudioResampler(format="fltp", layout="mono", rate=self.rate)

    def _resample(self, piece: Any) -> None:
        import av

        samples = piece.to_ndarray().reshape(piece.samples, -1)  # [samples, channels]
        mono = samples.mean(axis=1, dtype=np.float32)[None]  # [1, samples]
        single = av.AudioFrame.from_ndarray(mono, format="fltp", layout="mono")
        single.sample_rate = piece.sample_rate
        self._take(self.resampler.resample(single))

    def _finish(self) -> None:
        if self.unpacker is None:
            return
        for piece in filter(None, self.unpacker.resample(None)):
            self._resample(piece)
        self._take(self.resampler.resample(None))
        self.unpacker = self.resampler = None
        self.source = ()

    def _take(self, pieces: list[Any]) -> None:
        for piece in filter(None, pieces):  # where nothing is to be done, PyAV hands back what it was given, also None
            self.pieces.append(piece.to_ndarray()[0].astype(np.float32))
            self.samples += len(self.pieces[-1])
