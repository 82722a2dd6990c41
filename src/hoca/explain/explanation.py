"""Why a model said what it said, as plain data from which the report, the figure and the page are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hoca import media
from hoca.explain.moments import spans
from hoca.media import Clock, Preview
from hoca.media.clock import Spans

if TYPE_CHECKING:  # a process that only decodes pictures imports this package, and should not load torch for it
    from torch import Tensor

    from hoca.captioning import Caption, SentenceScore, VideoCaptioner, ViewCaption
    from hoca.media import DecodeLimits
    from hoca.models import Matrix
    from hoca.models.explanation import Axis

FOUND = 8  # of a kind, the likeliest
BEGINNING = "(start)"  # what comes before the first word
LABELS = {"change": "change between pictures"}  # of modalities whose name says too little

Rows = tuple[tuple[float, ...], ...]  # one row of weights over the time steps for each word, [L][T]


@dataclass(frozen=True)
class GroupWeights:
    """The weights that one group of modalities gives to the time steps of one of them."""

    members: tuple[str, ...]
    theta: float | None  # its weight in eq. 19; None where there is nothing to merge
    weights: Rows  # α_g

    @property
    def order(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class Modality:
    name: str
    share: tuple[float, ...]  # β of each word
    weights: Rows  # α, all groups merged
    groups: tuple[GroupWeights, ...]
    spans: Spans  # the seconds of each time step


@dataclass(frozen=True)
class MatrixAxis:
    """What the rows or the columns of a matrix are."""

    kind: Literal["words", "before", "time", "names"]  # before: what was read before each word
    labels: tuple[str, ...]  # of time, empty
    spans: Spans = ()  # of time, the seconds of each step
    modality: str = ""  # whose time it is


@dataclass(frozen=True)
class ExplainedMatrix:
    rows: MatrixAxis
    columns: MatrixAxis
    values: Rows
    about: str  # what a number says
    sums: Literal["rows"] | None  # they are weights


@dataclass(frozen=True)
class ModelCaption:
    """What one model said about the clip, and what it looked at."""

    model: str  # what it is called in the report
    kind: str  # its attention, in words
    text: str
    words: tuple[str, ...]
    logprob: float
    alternatives: tuple[tuple[str, float], ...]  # the rest of the beam with its log-probabilities
    modalities: tuple[Modality, ...]  # those that the clip has
    absent: dict[str, str]  # modality → why it is missing
    choices: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)  # what → option → share per word
    found: dict[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)  # tags, topics: the likeliest first
    matrices: dict[str, ExplainedMatrix] = field(default_factory=dict)  # whatever else there is to see, by name
    confidence: float | None = None  # probability that the sentence is as good as a person's; None: not known
    unsure: bool = False  # whether that is so little that it should be said
    scores: tuple[SentenceScore, ...] = ()  # of the sentence and of each alternative
    views: tuple[ViewCaption, ...] = ()  # what it says of each of its views of the clip, where it has several


@dataclass(frozen=True)
class ExplainedVideo:
    video: str  # the file's name without its folder
    preview: Preview
    captions: tuple[ModelCaption, ...]  # one per model


def explain(
    video: Path | str,
    model: VideoCaptioner | Path | str = "default",
    *,
    compare: Sequence[VideoCaptioner | Path | str] = (),
    beam: int | None = None,
    category: str | None = None,
    limits: DecodeLimits | None = None,
    device: str = "auto",
) -> ExplainedVideo:
    """Caption a video file and say why, with one model or, to compare, with several.

    beam: the search's width. category: the video's, for models that were trained with categories. limits: what the file
    may cost; None = as the models have it. device: where models
    that are given by name run; `auto` is the GPU if there is one.
    """
    from hoca.captioning import VideoCaptioner, load

    captioners = [each if isinstance(each, VideoCaptioner) else load(each, device) for each in (model, *compare)]
    pictures = max(captioner.pictures for captioner in captioners)
    captions: list[tuple[str, VideoCaptioner, Caption]] = []
    for each, captioner in zip((model, *compare), captioners, strict=True):
        name = "model" if isinstance(each, VideoCaptioner) else model_name(each)
        search = replace(captioner.search, beam=beam) if beam else captioner.search
        found = captioner.caption(video, search, category=category, pictures=0 if captions else pictures, limits=limits)
        captions.append((name, captioner, found))
    return collect(video, captions)


def model_name(model: Path | str) -> str:
    """What to call a model: the name of its run, or of its file."""
    path = Path(model).resolve()
    if path.parent.name == "checkpoint":
        return path.parent.parent.name
    return path.stem if path.is_file() else path.name


def collect(video: Path | str, captions: Sequence[tuple[str, VideoCaptioner, Caption]]) -> ExplainedVideo:
    """The explanation of captions that were made already, each with its model and what to call that.

    The clip is shown as the first caption's preview has it; a caption without one costs another decoding.
    """
    model, caption = captions[0][1:]
    shown = caption.preview or media.preview(video, model.extractor.decoders.decode, model.pictures, caption.part)
    return ExplainedVideo(Path(video).name, shown, tuple(model_caption(*each, shown.clock) for each in captions))


def model_caption(name: str, captioner: VideoCaptioner, caption: Caption, clock: Clock) -> ModelCaption:
    """A caption and what its words looked at, with the model's name and the times of the clip."""
    found = caption.explanation
    seconds: Callable[[str, int], Spans] = lambda m, steps: spans(captioner.specification[m], steps, clock)  # noqa: E731
    modalities = []
    for modality, weights in found.attention.items():
        theta = found.theta.get(modality, {})
        modalities.append(
            Modality(
                name=modality,
                share=tuple(found.shares[modality].tolist()) if modality in found.shares else (),
                weights=_rows(weights),
                groups=tuple(
                    GroupWeights(members, theta.get(members), _rows(of_group))
                    for members, of_group in found.groups.get(modality, {}).items()
                ),
                spans=seconds(modality, weights.shape[1]),
            )
        )
    return ModelCaption(
        model=name,
        kind=captioner.model.describe(),
        text=caption.text,
        words=caption.words,
        logprob=caption.logprob,
        alternatives=caption.alternatives,
        modalities=tuple(modalities),
        absent=caption.absent,
        choices={
            what: {option: tuple(share.tolist()) for option, share in options.items()}
            for what, options in found.choices.items()
        },
        found={what: _likeliest(items) for what, items in found.found.items()},
        matrices={name: _matrix(each, caption.words, seconds) for name, each in found.matrices.items()},
        confidence=caption.confidence,
        unsure=caption.unsure(),
        scores=caption.scores,
        views=caption.views,
    )


def _likeliest(items: Mapping[str, Tensor]) -> tuple[tuple[str, float], ...]:
    ranked = sorted(((name, float(p)) for name, p in items.items()), key=lambda item: -item[1])
    return tuple(ranked[:FOUND])


def _matrix(matrix: Matrix, words: tuple[str, ...], seconds: Callable[[str, int], Spans]) -> ExplainedMatrix:
    """Of many names those with the largest numbers; seconds: of a modality and a number of steps → those of each."""
    from hoca.models.explanation import Names

    values, axes = matrix.values, []
    for dimension, axis in enumerate((matrix.rows, matrix.columns)):
        if isinstance(axis, Names) and len(axis.names) > FOUND:
            largest = values.abs().sum(1 - dimension).argsort(descending=True, stable=True)[:FOUND]
            values = values.index_select(dimension, largest)
            axis = Names(tuple(axis.names[place] for place in largest.tolist()))
        axes.append(_axis(axis, words, seconds))
    rows, columns = axes
    return ExplainedMatrix(rows, columns, _rows(values), matrix.about, matrix.sums)


def _axis(axis: Axis, words: tuple[str, ...], seconds: Callable[[str, int], Spans]) -> MatrixAxis:
    from hoca.models.explanation import Names, Words

    if isinstance(axis, Words):
        return MatrixAxis("before", (BEGINNING, *words[:-1])) if axis.before else MatrixAxis("words", words)
    if isinstance(axis, Names):
        return MatrixAxis("names", axis.names)
    of_steps = seconds(axis.modality, axis.count)
    chunks = [of_steps[first : first + axis.chunk] for first in range(0, axis.count, axis.chunk)]
    return MatrixAxis("time", (), tuple((chunk[0][0], chunk[-1][1]) for chunk in chunks), axis.modality)


def _rows(weights: Tensor) -> Rows:
    return tuple(tuple(row) for row in weights.float().tolist())
