"""Videos to features: extract."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hoca.cli.common import Device, Limit, Threads, app
from hoca.cli.help import DATA
from hoca.errors import UserError
from hoca.options import from_arguments
from hoca.progress import say


class Sampling(StrEnum):
    default = "default"
    paper = "paper"


class Engine(StrEnum):
    local = "local"
    ray = "ray"


@app.command(rich_help_panel=DATA)
def extract(
    out: Annotated[Path, typer.Option(metavar="STORE", help="The feature store: a folder, one file per video.")],
    videos: Annotated[
        list[Path] | None, typer.Argument(metavar="VIDEO", help="Video files, folders of them, or patterns in quotes.")
    ] = None,
    imported: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODALITY=PATH",
            help="Instead of videos: features of others, an HDF5 file or a folder of .npy/.npz. Once per modality.",
        ),
    ] = None,
    image: Annotated[
        str, typer.Option(metavar="BACKBONE", help="Backbone for pictures: NAME, NAME=FILE, hf:FOLDER or none.")
    ] = "dinov2-small",
    motion: Annotated[str, typer.Option(metavar="BACKBONE", help="Backbone for motion.")] = "i3d-kinetics-400",
    audio: Annotated[str, typer.Option(metavar="BACKBONE", help="Backbone for sound.")] = "soundnet-8",
    change: Annotated[bool, typer.Option("--change", help="Also the difference of neighbouring pictures.")] = False,
    sampling: Annotated[Sampling, typer.Option(help="Which moments are looked at.")] = Sampling.default,
    engine: Annotated[Engine, typer.Option(help="This machine, or a Ray cluster.")] = Engine.local,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="local: decoding processes; ray: model processes.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Videos that go through a network together.")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    precision: Annotated[
        str, typer.Option(metavar="PRECISION", help="auto, float32, bf16 or, on a CPU, int8.")
    ] = "auto",
    limit: Limit = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A CSV of each video; STORE/extraction.csv by default.")
    ] = None,
) -> None:
    """Make features of videos; what is done already is skipped. Exit code 1 if any video failed.

    \b
    hoca extract clips/ --out features
    hoca extract 'clips/*.mp4' --out features --motion none --audio none --device cpu
    """
    if imported:
        if videos:
            raise UserError(f"--import takes the place of videos: leave {videos[0]} out, or give it a store of its own")
        import_into(out, imported)
        return
    if not videos:
        raise UserError("nothing to extract: name videos, or features of others with --import MODALITY=PATH")
    from hoca import media
    from hoca.features import FeatureStore, specify
    from hoca.features.engines import ExtractionSettings, extract_all

    specification = specify(image=image, motion=motion, audio=audio, sampling=sampling.value, change=change)
    limits = from_arguments(media.DecodeLimits, limit)
    settings = ExtractionSettings(device, precision, workers, batch_size, limits)
    summary = extract_all(videos, FeatureStore(out), specification, settings, engine=engine.value, report=report)
    if summary.failed:
        raise typer.Exit(1)


def import_into(out: Path, sources: list[str]) -> None:
    """Import `MODALITY=PATH` sources into a store; exit code 1 if some videos failed, 2 if all did."""
    from hoca.features import FeatureStore
    from hoca.features.importing import import_features

    named = dict(text.partition("=")[::2] for text in sources)
    if len(named) < len(sources) or not all(named.values()):
        raise UserError(f"{' '.join(sources)}: name each modality once, as in image=FILE.h5 motion=FOLDER")
    counts = import_features({name: Path(path) for name, path in named.items()}, FeatureStore(out))
    say(f"{out}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if counts["failed"]:
        raise typer.Exit(1 if counts["imported"] + counts["skipped"] else 2)
