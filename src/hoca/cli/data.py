"""Datasets and feature files: data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hoca.cli.common import data_app
from hoca.cli.features import import_into
from hoca.errors import UserError
from hoca.options import from_arguments
from hoca.progress import say


class Dataset(StrEnum):
    msvd = "msvd"
    msrvtt = "msrvtt"
    msrvtt_clips = "msrvtt-clips"
    msrvtt_dinov2 = "msrvtt-dinov2"
    mixed_clips = "mixed-clips"
    binding = "binding"


@data_app.command()
def prepare(
    dataset: Annotated[Dataset, typer.Argument(metavar="DATASET", help="Which one: " + ", ".join(Dataset) + ".")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write: captions.jsonl and features/.")],
    source: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the official files (msvd, msrvtt).")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="STORE", help="Store with the features of all MSR-VTT videos.")
    ] = None,
    videos: Annotated[bool, typer.Option(help="binding: write video files and take features from them.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="binding: processes; one per core by default.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Of binding, mixed-clips, msrvtt-clips, msrvtt-dinov2."),
    ] = None,
) -> None:
    """Make a dataset folder that `hoca train` reads.

    \b
    hoca data prepare binding --out data/binding
    hoca data prepare msvd --source downloads/msvd --out data/msvd
    """
    from hoca.data import binding, mixed_clips, msrvtt, msrvtt_dinov2, msvd
    from hoca.threads import cores

    if dataset is Dataset.binding:
        binding.prepare(out, from_arguments(binding.BindingOptions, options), videos=videos, workers=workers or cores())
        return
    if source is None:
        raise UserError(f"{dataset.value} needs --source, the folder with its official files")
    if dataset is Dataset.msvd:
        msvd.prepare(source, out, report=say)
    elif dataset is Dataset.msrvtt:
        msrvtt.prepare(source, out, features=features, report=say)
    elif dataset is Dataset.msrvtt_dinov2:
        msrvtt_dinov2.prepare(source, out, from_arguments(msrvtt_dinov2.DinoOptions, options), report=say)
    elif dataset is Dataset.mixed_clips:
        mixed_clips.prepare(source, out, from_arguments(mixed_clips.MixedOptions, options), report=say)
    else:
        msrvtt.prepare_clips(source, out, from_arguments(msrvtt.ClipOptions, options), report=say)


@data_app.command("import-features")
def import_features(
    sources: Annotated[
        list[str], typer.Argument(metavar="MODALITY=PATH", help="HDF5 files or folders of .npy, one per modality.")
    ],
    out: Annotated[Path, typer.Option(metavar="STORE", help="The feature store to write.")],
) -> None:
    """The same as `hoca extract --import`.

    \b
    hoca data import-features image=resnet.h5 --out features
    hoca data import-features image=resnet.h5 motion=c3d/ --out features
    """
    import_into(out, sources)


class Layout(StrEnum):
    datasets = "datasets"
    array = "array"


@data_app.command("export-features")
def export_features(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A feature store.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder to write: one MODALITY.h5 each.")],
    layout: Annotated[Layout, typer.Option(help="A dataset per video, or one array with ids.")] = Layout.datasets,
) -> None:
    """Write features as HDF5 files, one per modality.

    \b
    hoca data export-features features --out hdf5
    hoca data export-features features --out hdf5 --layout array
    """
    from hoca.features import FeatureStore, hdf5

    for path in hdf5.export_features(FeatureStore(store), out, layout.value):
        print(path)
