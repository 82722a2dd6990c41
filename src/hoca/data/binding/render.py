"""Pictures and sound of a scene, as arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hoca.data.binding.scene import COLOURS, BindingOptions, Scene, Sound, Thing
from hoca.media import Clip

RATE = 16000
TRAVEL = 0.5  # of the picture, over the time in which a thing is seen
SHAKES_PER_SECOND = 2.5

Field = np.ndarray


def render(scene: Scene, options: BindingOptions) -> Clip:
    rng = np.random.default_rng(scene.grain)
    count = max(2, round(options.seconds * options.fps))
    times = np.arange(count) / options.fps
    frames = _background(rng, options.picture)[:, None].repeat(count, axis=1)  # [3, F, P, P]
    for thing in scene.things:
        first, last = np.searchsorted(times, (thing.start, thing.end))
        alpha = _alpha(thing, times[first:last], options.picture)  # [f, P, P]
        brightness = rng.uniform(0.9, 1.0)
        for channel, level in zip(frames, COLOURS[thing.colour], strict=True):
            channel[first:last] += (level * brightness - channel[first:last]) * alpha
    if options.noise:
        # The same grain in all three channels, as on film.
        frames += rng.standard_normal(frames.shape[1:], dtype=np.float32) * np.float32(255 * options.noise)
    pictures = (frames.clip(0, 254.9, out=frames) + 0.5).astype(np.uint8)
    pictures = np.ascontiguousarray(np.moveaxis(pictures, 0, -1))  # [F, P, P, 3]
    return Clip(pictures, times, count / options.fps, _sound_track(scene, options, rng), RATE)


def _sound_track(scene: Scene, options: BindingOptions, rng: np.random.Generator) -> np.ndarray | None:
    if scene.sound is None:
        return None
    waveform = rng.standard_normal(round(options.seconds * RATE), dtype=np.float32) * np.float32(0.1 * options.noise)
    heard = synthesize(scene.sound, rng)
    first = min(round(scene.sound.start * RATE), len(waveform) - len(heard))
    waveform[first : first + len(heard)] += heard
    return waveform.clip(-1, 1)


def _background(rng: np.random.Generator, side: int) -> np.ndarray:
    """A dark slope of a random tint [3, P, P]."""
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    slope = axis[:, None] * rng.uniform(-10, 10) + axis[None, :] * rng.uniform(-10, 10)
    return (rng.uniform(25, 45, (3, 1, 1)) + slope).astype(np.float32)


def _alpha(thing: Thing, times: np.ndarray, side: int) -> np.ndarray:
    """How far the thing covers each pixel [f, P, P] at these times, with smooth edges."""
    x, y, radius = _course(thing, times)
    axis = ((np.arange(side) + 0.5) / side).astype(np.float32)
    u = (axis[None, None, :] - x[:, None, None]) / radius[:, None, None]  # [f, 1, P]
    v = (axis[None, :, None] - y[:, None, None]) / radius[:, None, None]  # [f, P, 1]
    pixels = radius[:, None, None] * side
    return (0.5 - OUTLINES[thing.kind](u, v) * pixels).clip(0, 1).astype(np.float32)


def _course(thing: Thing, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre and radius at these times."""
    way = (times - thing.start) / (thing.end - thing.start) - 0.5  # -0.5 … 0.5
    x, y, radius = (np.full(len(times), value) for value in (thing.x, thing.y, thing.radius))
    if thing.motion in ("left", "right"):
        x += TRAVEL * way * (1 if thing.motion == "right" else -1)
    elif thing.motion in ("up", "down"):
        y += TRAVEL * way * (1 if thing.motion == "down" else -1)
    elif thing.motion in ("growing", "shrinking"):
        radius *= 2.0 ** (1.2 * way * (1 if thing.motion == "growing" else -1))
    else:
        x += 0.07 * np.sin(2 * np.pi * SHAKES_PER_SECOND * (times - thing.start))
    return x.astype(np.float32), y.astype(np.float32), radius.astype(np.float32)


def _star(u: Field, v: Field) -> Field:
    sector = 2 * np.pi / 5
    angle = np.abs((np.arctan2(u, -v) + sector / 2) % sector - sector / 2)
    # The straight edge from a tip (radius 1.15) to the notch beside it (radius 0.5), in polar form.
    tip, notch = 1.15, 0.5
    edge_angle = np.arctan2(tip - notch * np.cos(sector / 2), notch * np.sin(sector / 2))
    return np.hypot(u, v) * np.cos(angle - edge_angle) - tip * np.cos(edge_angle)


def _triangle(u: Field, v: Field) -> Field:
    slant = np.sqrt(3) / 2
    return np.maximum(np.maximum(slant * u - v / 2, -slant * u - v / 2), v) - 0.6


# Signed distance from the outline, about, in units of the radius: negative inside.
OUTLINES: dict[str, Callable[[Field, Field], Field]] = {
    "circle": lambda u, v: np.hypot(u, v) - 0.95,
    "square": lambda u, v: np.maximum(np.abs(u), np.abs(v)) - 0.85,
    "triangle": _triangle,
    "star": _star,
    "cross": lambda u, v: np.minimum(
        np.maximum(np.abs(u) - 1, np.abs(v) - 0.3), np.maximum(np.abs(u) - 0.3, np.abs(v) - 1)
    ),
    "ring": lambda u, v: np.abs(np.hypot(u, v) - 0.75) - 0.25,
}


def synthesize(sound: Sound, rng: np.random.Generator) -> np.ndarray:
    """The waveform [samples] of a sound; peak 0.5, soft ends."""
    time = np.arange(round(sound.seconds * RATE)) / RATE
    wave = VOICES[sound.name](time, sound.pitch, rng)
    ends = np.minimum(1, np.minimum(time, time[::-1]) / 0.01)
    return (0.5 * wave * ends / np.abs(wave).max()).astype(np.float32)


def _tone(time: np.ndarray, hertz: np.ndarray | float) -> np.ndarray:
    return np.sin(2 * np.pi * np.cumsum(np.broadcast_to(hertz, time.shape)) / RATE)


def _bell(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    partials = ((1.0, 1.0), (2.76, 0.6), (5.4, 0.3))
    return sum((level * _tone(time, 800 * pitch * ratio) for ratio, level in partials), time * 0) * np.exp(-3 * time)


def _drum(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    since_beat = time % 0.25
    rattle = np.convolve(rng.standard_normal(len(time)), np.ones(24) / 5, mode="same")
    return (_tone(time, 90 * pitch) + 0.5 * rattle) * np.exp(-18 * since_beat)


def _horn(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    return sum((_tone(time, 233 * pitch * k) / k for k in range(1, 7)), time * 0)


def _whistle(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    return _tone(time, 2600 * pitch * (1 + 0.02 * np.sin(2 * np.pi * 12 * time)))


def _buzzer(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    return sum((_tone(time, 120 * pitch * k) / np.sqrt(k) for k in range(1, 40, 2)), time * 0)


def _siren(time: np.ndarray, pitch: float, rng: np.random.Generator) -> np.ndarray:
    return _tone(time, pitch * (1000 + 450 * np.sin(2 * np.pi * 1.5 * time)))


VOICES: dict[str, Callable[[np.ndarray, float, np.random.Generator], np.ndarray]] = {
    "bell": _bell,
    "drum": _drum,
    "horn": _horn,
    "whistle": _whistle,
    "buzzer": _buzzer,
    "siren": _siren,
}
