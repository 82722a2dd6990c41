"""Features that need no weights: colour and shape layout, frame differences, log-mel. About unit scale, float32."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hoca.features.picture import Salient, cell_means
from hoca.media.request import Spread

HUES = 12
BANDS = 40
RATE = 16000
WINDOW, HOP = 400, 160  # 25 ms every 10 ms at 16 kHz
SILENCE = 1e-4  # a peak below -80 dB: AAC does not keep digital zero exactly

IMAGE_WIDTH = 4 * 4 * 3 + 64 + HUES + 1 + 3
MOTION_WIDTH = 64 + 4 * 4 + 2 * 2 * 4 + 6 + 3
AUDIO_WIDTH = 2 * BANDS


def image(frames: np.ndarray, steps: int) -> np.ndarray:
    """Frames uint8 [F, 64, 64, 3] → [steps, 128]: mean colour in 4 × 4 cells, the outline of what differs from the
    frame's median colour, its hues, its size and place."""
    pictures = frames[Spread(steps)(len(frames))].astype(np.float32) / 255  # [steps, 64, 64, 3]
    ground = np.median(pictures[:, ::4, ::4].reshape(steps, -1, 3), axis=1)[:, None, None]  # [steps, 1, 1, 3]
    red, green, blue = np.moveaxis(np.abs(pictures - ground), -1, 0)
    weights = np.maximum(np.maximum(np.maximum(red, green), blue) - 0.2, 0)  # [steps, 64, 64]
    salient = Salient(weights)
    cells = [cell_means(channel, 4) for channel in np.moveaxis(pictures, -1, 0)]
    layout = (np.concatenate(cells, axis=1) - 0.25) * 4
    place = np.stack([salient.mass * 20, salient.x, salient.y], axis=1) * salient.present[:, None]
    return np.concatenate(
        [layout, salient.patches() * 2, _hues(pictures, salient) * 4, place], axis=1, dtype=np.float32
    )


def _hues(pictures: np.ndarray, salient: Salient) -> np.ndarray:
    """[F, 13]: shares of twelve hues and of grey in what stands out; a hue between two bins is divided among them."""
    number, row, column = np.nonzero(salient.weights)
    colours, weights = pictures[number, row, column], salient.weights[number, row, column]  # [M, 3], [M]
    high = colours.max(1)
    chroma = high - colours.min(1)
    red, green, blue = colours.T
    sextant = np.select(
        [high == red, high == green],
        [(green - blue) / np.maximum(chroma, 1e-6), (blue - red) / np.maximum(chroma, 1e-6) + 2],
        (red - green) / np.maximum(chroma, 1e-6) + 4,
    )
    position = sextant % 6 * (HUES / 6)
    lower = position.astype(int)
    colourful = weights * chroma / np.maximum(high, 1e-6)
    bins = np.zeros((len(pictures), HUES + 1), np.float32)
    np.add.at(bins, (number, lower % HUES), colourful * (1 - position + lower))
    np.add.at(bins, (number, (lower + 1) % HUES), colourful * (position - lower))
    bins[:, HUES] = np.bincount(number, weights - colourful, minlength=len(pictures))
    return bins / np.maximum(bins.sum(1, keepdims=True), 1e-6) * salient.present[:, None]


def motion(frames: np.ndarray, steps: int) -> np.ndarray:
    """Frames uint8 [F, 64, 64, 3] → [steps, 105], from two frames a step, colour-blind: the outline of what differs
    from the clip's median picture, change in 4 × 4 cells, flow in 2 × 2, how the outline travels and grows, its size
    and place."""
    red, green, blue = np.moveaxis(frames[Spread(2 * steps)(len(frames))].astype(np.float32), -1, 0)
    grey = (red + green + blue) / (3 * 255)  # [2·steps, 64, 64]
    still = np.median(grey[::2], axis=0)
    salient = Salient(np.maximum(np.abs(grey - still) - 0.08, 0))
    difference = np.diff(grey, axis=0, prepend=grey[:1])
    place = np.stack([salient.mass * 40, salient.x * 2, salient.y * 2], axis=1) * salient.present[:, None]
    blocks = [
        salient.patches() * 2,
        cell_means(np.abs(difference), 4) * 20,
        _both_ways(_flow(grey, difference) * 3),
        _both_ways(_travel(salient)),
        place,
    ]
    per_frame = np.concatenate(blocks, axis=1)  # [2·steps, 105]
    return per_frame.reshape(steps, 2, -1).mean(1).astype(np.float32)


def _both_ways(values: np.ndarray) -> np.ndarray:
    """[F, C] → [F, 2C]: positive and negative parts apart, so that an average over to and fro keeps both."""
    return np.concatenate([np.maximum(values, 0), np.maximum(-values, 0)], axis=1)


def _travel(salient: Salient) -> np.ndarray:
    """[F, 3]: how far centre (x, y) and extent have come since the frame before; 0 where something (dis)appears."""
    state = np.stack([salient.x * 60, salient.y * 60, salient.extent * 160], axis=1)
    seen_twice = salient.present & np.roll(salient.present, 1)
    change = np.diff(state, axis=0, prepend=state[:1]) * seen_twice[:, None]
    return change.clip(-6, 6)


def _flow(grey: np.ndarray, difference: np.ndarray) -> np.ndarray:
    """[F, 8]: flow (x, y) along the gradient in 2 × 2 cells, damped where the picture is flat."""
    slope_y, slope_x = np.gradient(grey, axis=(1, 2))
    energy = cell_means(slope_x**2 + slope_y**2, 2) + 1e-3  # [F, 4]
    along_x, along_y = cell_means(slope_x * difference, 2), cell_means(slope_y * difference, 2)
    return np.concatenate([-along_x / energy, -along_y / energy], axis=1)


def silent(waveform: np.ndarray) -> bool:
    """Whether there is nothing to hear: no sample, or a peak below -80 dB."""
    return not len(waveform) or bool(np.abs(waveform).max() < SILENCE)


def audio(waveform: np.ndarray, steps: int) -> np.ndarray | None:
    """Mono sound [samples] at 16 kHz → [steps, 80]: mean and maximum of 40 log-mel bands in equal parts of the clip.
    None if it is silent throughout (peak below -80 dB)."""
    if silent(waveform):
        return None
    padded = np.pad(waveform.astype(np.float32), (0, max(0, WINDOW + HOP * (steps - 1) - len(waveform))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]  # [M, 400]
    power = np.abs(np.fft.rfft(windows * np.hanning(WINDOW).astype(np.float32), n=512)) ** 2
    # The floor, 65 dB below a loud tone, hides what a codec adds where there is nothing to hear.
    bands = (np.log10(power @ _mel_filters() + 1e-3) + 1) / 1.5  # [M, 40]
    starts = np.arange(steps) * len(bands) // steps
    sizes = np.diff(starts, append=len(bands))
    means = np.add.reduceat(bands, starts, axis=0) / sizes[:, None]
    return np.concatenate([means, np.maximum.reduceat(bands, starts, axis=0)], axis=1, dtype=np.float32)


@lru_cache(maxsize=1)
def _mel_filters() -> np.ndarray:
    """[257, 40]: triangles of equal width on the mel scale from 60 to 7600 Hz, each with sum about 1."""
    lowest, highest = 1127 * np.log1p(60 / 700), 1127 * np.log1p(7600 / 700)
    mel = np.linspace(lowest, highest, BANDS + 2)
    edges = 700 * np.expm1(mel / 1127)
    hertz = np.fft.rfftfreq(512, 1 / RATE)[:, None]
    rising = (hertz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz) / (edges[2:] - edges[1:-1])
    return np.maximum(np.minimum(rising, falling), 0).astype(np.float32)
