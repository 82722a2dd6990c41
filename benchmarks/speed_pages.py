"""The tables of docs/speed.md, scaling.md and kernels.md and their plots, from results/bench-*.csv: no number is typed.

python benchmarks/speed_pages.py
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path

from hoca.bench import complexity
from hoca.explain.drawing import new_figure, save
from hoca.files import replacing

ROOT = Path(__file__).resolve().parent.parent
RESULTS, DOCS = ROOT / "results", ROOT / "docs"
BLOCK = re.compile(r"(<!-- (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
PATHS = {"word by word": "#9aa5b1", "plain": "#5b8def", "captured": "#1b4f9c"}
MODELS = ("hoca-u", "l-hoca-ubt", "hoca-ubt")
PAPERS = {"hoca-u": ("4.1", "16418"), "l-hoca-ubt": ("5.6", "24615"), "hoca-ubt": ("9.7", "37040")}  # its Table 3
PAPERS_EPOCHS, PAPERS_BATCH = 100, 25
VIDEOS, CAPTIONS = 6513, 20  # of MSR-VTT's training split
FAST_EPOCHS = 8  # as recipes/msvd-fast.yaml has, with all captions of a video in a batch
WAITS = {"hoca --help": 0.17, "import hoca": 0.03, "hoca caption": 8, "new process": 8, "next clip": 3}  # s, at most
Row = dict[str, str]
Columns = dict[str, Callable[[Row], str]]

# What one GPU sends and receives at once, in bytes a second, and what a ring of `n` adds per hop: stated, not measured.
LINKS = {8: ("NVLink, 8 GPUs of one machine", 450e9, 3e-6), 64: ("400 Gb/s per GPU, 8 machines", 50e9, 8e-6)}


def rows_of(name: str, *, cpu: bool = False) -> list[Row]:
    """Those that were measured on a GPU, or on a CPU."""
    path = RESULTS / f"bench-{name}.csv"
    path = path if path.is_file() else RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["device"].startswith("cpu") == cpu]


def by_model(name: str) -> list[Row]:
    return sorted(rows_of(name), key=lambda row: MODELS.index(row["model"]))


def epochs() -> list[Row]:
    """Those with all captions of a video in a batch."""
    return [row for row in by_model("train-epoch") if int(row["captions"]) == CAPTIONS]


def train_table() -> str:
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "path": lambda row: f"{row['path']}, {row['precision']}",
        "ms a step": lambda row: f"{float(row['ms']):.2f} ({float(row['ms_low']):.2f}–{float(row['ms_high']):.2f})",
        "peak GB": lambda row: f"{float(row['peak_gb']):.2f}",
        "× word by word": lambda row: row["times_faster"],
        "time / `hoca-u`": lambda row: row["time_to_unary"],
        "memory / `hoca-u`": lambda row: row["memory_to_unary"],
        "commit": itemgetter("commit"),
    }
    return markdown(by_model("train"), columns)


def baselines_table() -> str:
    """The captured steps of the other captioners, and how far their losses stay from the plain step's."""
    near = {(row["model"], row["path"], row["precision"]): row for row in rows_of("train-baselines-curves")}
    columns: Columns = {
        "captioner": lambda row: f"`{row['model']}`",
        "precision": itemgetter("precision"),
        "ms a step": lambda row: f"{float(row['ms']):.2f} ({float(row['ms_low']):.2f}–{float(row['ms_high']):.2f})",
        "peak GB": lambda row: f"{float(row['peak_gb']):.2f}",
        "× word by word": itemgetter("times_faster"),
        "losses within, 50 steps": lambda row: near.get((row["model"], "captured", row["precision"]), {}).get(
            "within", ""
        ),
        "commit": itemgetter("commit"),
    }
    return markdown([row for row in rows_of("train-baselines") if row["path"] == "captured"], columns)


def attention_table() -> str:
    """The fused kernels; the sizes of the paper's models."""
    columns: Columns = {
        "attention": lambda row: row["attention"].replace("_", "-"),
        "modalities": itemgetter("modalities"),
        "words": itemgetter("words"),
        "type": itemgetter("precision"),
        "direction": lambda row: {"forward": "forward", "both": "forward and backward"}[row["direction"]],
        "ms": lambda row: f"{float(row['ms']):.3f}",
        "share of the limit": lambda row: (
            f"{100 * float(row['share_of_limit']):.0f} %" if row["share_of_limit"] else ""
        ),
        "× contracted": itemgetter("times_contracted"),
        "× word by word": itemgetter("times_word_by_word"),
        "error": itemgetter("error"),
        "peak GB": lambda row: f"{int(row['peak_bytes']) / 1e9:.2f}",
        "commit": itemgetter("commit"),
    }
    return markdown([row for row in rows_of("attention") if row["path"] == "fused"], columns)


def tiles_table() -> str:
    """Of each kind the tile whose times for few and for many words have the smallest product."""
    tiles: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in rows_of("attention-tiles"):
        names = ("modalities", "precision", "words", "lanes", "warps", "ahead", "unroll", "registers")
        tiles.setdefault(tuple(row[name] for name in names), {})[row["words_per_video"]] = row
    best: dict[tuple[str, ...], dict[str, Row]] = {}
    for tile, rows in tiles.items():
        found = best.get(tile[:2], rows)
        product = [math.prod(float(row["us"]) for row in of_tile.values()) for of_tile in (rows, found)]
        best[tile[:2]] = rows if product[0] <= product[1] else found
    columns: Columns = {
        "modalities": itemgetter("modalities"),
        "type": itemgetter("precision"),
        "words": itemgetter("words_per_video"),
        "µs": itemgetter("us"),
        "share of the limit": lambda row: f"{100 * float(row['share_of_limit']):.0f} %",
    }
    return markdown([row for kind in sorted(best) for row in best[kind].values()], columns)


def curves_table() -> str:
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "path": lambda row: f"{row['path']}, {row['precision']}",
        "loss": lambda row: f"{float(row['first_loss']):.1f} → {float(row['last_loss']):.1f}",
        "largest difference from plain": itemgetter("within"),
        "steps until it is above 0.001": itemgetter("steps_within_0.001"),
    }
    return markdown([row for row in rows_of("train-curves") if row["within"] != "0"], columns)


def epoch_table() -> str:
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "epoch": lambda row: row["epoch"],
        "seconds": lambda row: row["seconds"],
        "batches": lambda row: row["batches"],
        "shapes": lambda row: row["shapes"],
        "peak GB": lambda row: row["peak_gb"],
        "commit": itemgetter("commit"),
    }
    return markdown(epochs(), columns)


def table_3() -> str:
    """The paper's, and beside it what the same training takes here: measured over some steps and multiplied."""
    found: list[Row] = []

    def add(model: str, what: str, gb: str, seconds: float, measured: str) -> None:
        found.append(
            {"model": model, "what": what, "gb": f"{float(gb):.1f}", "seconds": f"{seconds:,.0f}", "measured": measured}
        )

    for model, (space, seconds) in PAPERS.items():
        add(model, "the paper", space, float(seconds), "")
        for row in rows_of("train"):
            if (row["model"], row["path"]) == (model, "captured"):
                steps = math.ceil(VIDEOS * CAPTIONS / PAPERS_BATCH) * PAPERS_EPOCHS
                what = f"{PAPERS_BATCH} pairs, captions of 30 words, {row['precision']}, {PAPERS_EPOCHS} epochs"
                together = row.get("together") or 10  # as in rows that do not say
                measured = f"{row['calls']} × {together} steps, of {steps:,}"
                add(model, what, row["peak_gb"], steps * float(row["ms"]) / 1e3, measured)
        for row in rows_of("train-epoch"):
            if (row["model"], row["epoch"]) != (model, "2"):
                continue
            pairs = row["captions"] == "1"
            times = PAPERS_EPOCHS * CAPTIONS if pairs else FAST_EPOCHS
            name = f"{PAPERS_BATCH} pairs" if pairs else f"{row['videos']} videos × {row['captions']} captions"
            what = f"{name}, {row['precision']}, {PAPERS_EPOCHS if pairs else FAST_EPOCHS} epochs"
            add(model, what, row["peak_gb"], times * float(row["seconds"]), f"{row['batches']} steps, × {times:,}")
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "training": itemgetter("what"),
        "GB": itemgetter("gb"),
        "seconds": itemgetter("seconds"),
        "measured over": itemgetter("measured"),
    }
    return markdown(found, columns)


def reward_table() -> str:
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "objective": lambda row: f"{row['objective']}, {row['path']}, {row['precision']}",
        "ms a step": lambda row: f"{float(row['ms']):.2f} ({float(row['ms_low']):.2f}–{float(row['ms_high']):.2f})",
        "× `xe`": itemgetter("time_to_xe"),
        "peak GB": lambda row: f"{float(row['peak_gb']):.2f}",
        "commit": itemgetter("commit"),
    }
    return markdown(rows_of("reward"), columns)


def exponents_table() -> str:
    columns: Columns = {
        "against": itemgetter("axis"),
        "attention": lambda row: row["attention"].replace("_", "-"),
        "path": itemgetter("path"),
        "up to": itemgetter("to"),
        "the paper's formula": itemgetter("formula"),
        "bytes": itemgetter("bytes"),
        "time": lambda row: f"{row['ms']} (up to {row['ms_to']})" if row["ms"] else "",
    }
    return markdown(rows_of("complexity-exponents"), columns)


def generate_table() -> str:
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "path": lambda row: f"{row['path']}, {row['precision']}",
        "seconds": lambda row: f"{float(row['seconds']):.2f}",
        "peak GB": lambda row: row["peak_gb"],
        "same sentences as plain": lambda row: f"{100 * float(row['same']):.1f} %",
        "× plain": lambda row: row["times_faster"],
    }
    return markdown(rows_of("generate"), columns)


def caption_table() -> str:
    """Captioning a folder on a CPU: what each stage costs, and both ways through all of them; times as ratios alone."""
    rows = rows_of("caption", cpu=True)
    first = {row["kind"]: float(row["seconds"]) for row in reversed(rows)}  # of each kind
    first["stage"] = first.get("run", 0.0)

    def share(row: Row, column: str) -> str:
        return f"{100 * float(row[column]) / first[row['kind']]:.3g}"

    columns: Columns = {
        "": lambda row: {"stage": "stage", "run": "folder", "fixed": "fixed cost of one clip"}[row["kind"]],
        "what": itemgetter("what"),
        "precision": itemgetter("precision"),
        "time": lambda row: f"{share(row, 'seconds')} % ({share(row, 'low')}–{share(row, 'high')})",
        "of a perfect overlap": lambda row: f"{100 * float(row['of_perfect']):.0f} %" if row["of_perfect"] else "",
        "× the first": itemgetter("times"),
        "sentences changed": itemgetter("changed"),
        "peak MiB": itemgetter("peak_mib"),
        "commit": itemgetter("commit"),
    }
    return markdown(rows, columns)


def scale_table() -> str:
    columns: Columns = {
        "what": itemgetter("what"),
        "entries": lambda row: f"{int(row['entries']):,}",
        "× list": lambda row: row["times_listing"] or f"{float(row['seconds']) / listing[row['entries']]:.2g}",
        "exponent": itemgetter("exponent"),
        "peak MiB": itemgetter("peak_mib"),
        "commit": itemgetter("commit"),
    }
    rows = rows_of("scale", cpu=True)
    listing = {row["entries"]: float(row["seconds"]) for row in rows if row["what"] == "list"}
    order = list(dict.fromkeys(row["what"] for row in sorted(rows, key=lambda row: row["what"] != "list")))
    return markdown(sorted(rows, key=lambda row: (order.index(row["what"]), int(row["entries"]))), columns)


def ray_table() -> str:
    columns: Columns = {
        "engine": itemgetter("engine"),
        "cores": itemgetter("cores"),
        "of the local engine": lambda row: f"{100 * float(row['of_local']):.0f} %",
        "efficiency over cores": lambda row: f"{100 * float(row['efficiency']):.0f} %",
        "commit": itemgetter("commit"),
    }
    return markdown([r for r in rows_of("ray-engine", cpu=True) if r["kind"] == "throughput"], columns)


def coordinator_table() -> str:
    columns: Columns = {
        "workers": itemgetter("workers"),
        "driver, ms a video": itemgetter("driver_ms"),
        "Ray's control service, ms a video": itemgetter("control_ms"),
        "workers at a clip a second that these can feed": itemgetter("feeds"),
        "commit": itemgetter("commit"),
    }
    return markdown([r for r in rows_of("ray-engine", cpu=True) if r["kind"] == "coordinator"], columns)


def peers_table() -> str:
    columns: Columns = {
        "who": itemgetter("who"),
        "what": itemgetter("what"),
        "weights": lambda row: f"{int(row['weights']) / 1e6:.1f} M",
        "ms": lambda row: f"{float(row['ms']):.3g} ({float(row['ms_low']):.3g}–{float(row['ms_high']):.3g})",
        "captions a second": itemgetter("captions_per_second"),
        "peak GB": itemgetter("peak_gb"),
        "commit": itemgetter("commit"),
    }
    return markdown(rows_of("peers"), columns)


def joined_table() -> str:
    """What wrapping costs on one GPU."""
    rows = {(row["model"], row["path"], row["precision"]): row for row in rows_of("train")}
    found = []
    for (model, path, precision), row in rows.items():
        alone = rows.get((model, path.removesuffix(", joined"), precision), row)
        if alone is not row and alone["commit"] == row["commit"]:  # measured in the same run
            cost = f"{100 * (float(row['ms']) / float(alone['ms']) - 1):+.1f} %"
            found.append(
                {"model": model, "path": f"{alone['path']}, {precision}", "alone": alone["ms"]}
                | {"joined": row["ms"], "cost": cost}
            )
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "path": lambda row: row["path"],
        "ms alone": lambda row: f"{float(row['alone']):.2f}",
        "ms joined": lambda row: f"{float(row['joined']):.2f}",
        "cost": lambda row: row["cost"],
    }
    return markdown(found, columns)


def scaling_table() -> str:
    """Seconds of an epoch on n GPUs: the step as measured, and after it the sum of all gradients in a ring."""
    found = []
    for row in [row for row in epochs() if row["epoch"] == "2"]:
        step, size = float(row["seconds"]) / float(row["batches"]), float(row["gradient_bytes"])
        for gpus, (link, rate, hop) in LINKS.items():
            exchange = 2 * (gpus - 1) / gpus * size / rate + 2 * (gpus - 1) * hop
            found.append(
                {"model": row["model"], "gpus": str(gpus), "link": link, "step": f"{1e3 * step:.2f}"}
                | {"exchange": f"{1e3 * exchange:.2f}", "efficiency": f"{100 * step / (step + exchange):.0f} %"}
                | {"epoch": f"{float(row['seconds']) / gpus * (step + exchange) / step:.2f}"}
            )
    columns: Columns = {
        "model": lambda row: f"`{row['model']}`",
        "GPUs": lambda row: row["gpus"],
        "link": lambda row: row["link"],
        "step, ms": lambda row: row["step"],
        "gradients, ms": lambda row: row["exchange"],
        "efficiency": lambda row: row["efficiency"],
        "epoch, s": lambda row: row["epoch"],
    }
    return markdown(found, columns)


def goals_table() -> str:
    """What the project set out to reach, beside what was measured."""
    step = {(row["model"], row["path"], row["precision"]): row for row in rows_of("train")}
    epoch = {row["model"]: row for row in epochs() if row["epoch"] == "2"}
    search = {(row["model"], row["path"], row["precision"]): row for row in rows_of("generate")}
    scores = [row for row in rows_of("attention") if row["path"] == "fused" and row["share_of_limit"]]
    if not step or not epoch or not search:
        return "Not measured yet.\n"
    found: list[Row] = []

    def goal(what: str, bound: float, row: Row, column: str, *, unit: str = "", least: bool = False) -> None:
        found.append(goal_row(what, bound, row, column, unit=unit, least=least))

    for row in scores:
        kind = row["attention"].replace("_", "-")
        what = f"{kind} scores, {row['modalities']} × 80 steps, {row['words']} words, {row['precision']}"
        least = 0.6 if (row["attention"], row["words"]) == ("low_rank", "30") else 0.5
        goal(f"{what}, forward: share of the limit", least, row, "share_of_limit", least=True)
    for model, precision, bound in (("l-hoca-ubt", "float32", 12), ("l-hoca-ubt", "bf16", 6), ("hoca-u", "bf16", 3)):
        goal(f"`{model}` step, {precision}", bound, step[model, "captured", precision], "ms", unit=" ms")
    for model, times, memory in (("l-hoca-ubt", (1.25, 1.1), 1.15), ("hoca-ubt", (1.5, 1.3), 1.25)):
        for precision, time in zip(("float32", "bf16"), times, strict=True):
            row = step[model, "captured", precision]
            goal(f"`{model}` to `hoca-u`, time, {precision}", time, row, "time_to_unary", unit="×")
            goal(f"`{model}` to `hoca-u`, memory, {precision}", memory, row, "memory_to_unary", unit="×")
    for model in MODELS:
        for precision in ("float32", "bf16"):
            row = step[model, "captured", precision]
            if row["times_faster"]:  # measured in the same run
                goal(f"`{model}` to word by word, {precision}", 20, row, "times_faster", unit="×", least=True)
    for model, row in epoch.items():
        bound = 2.2 if model == "l-hoca-ubt" else 5
        goal(f"epoch of MSR-VTT's shape, `{model}`, bf16", bound, row, "seconds", unit=" s")
    for precision in ("float32", "bf16"):
        row = search["l-hoca-ubt", "captured", precision]
        goal(f"beam 5 over 2,990 videos, `l-hoca-ubt`, {precision}", 3, row, "seconds", unit=" s")
    return goals(found)


def goal_row(what: str, bound: float, row: Row, column: str, *, unit: str = "", least: bool = False) -> Row:
    """Whether a measured value is within its bound."""
    measured = float(row[column])
    reached = measured >= bound if least else measured <= bound
    return {
        "goal": what,
        "bound": f"{'≥' if least else '≤'} {bound:g}{unit}",
        "measured": f"{measured:.3g}{unit}",
        "reached": "yes" if reached else "no",
        "commit": row["commit"],
    }


def goals(found: list[Row]) -> str:
    return markdown(found, {name: itemgetter(name) for name in ("goal", "bound", "measured", "reached", "commit")})


def caption_goals() -> str:
    """A folder of clips on a CPU."""
    rows = rows_of("caption", cpu=True)
    together = [row for row in rows if (row["kind"], row["what"]) == ("run", "together")]
    found = []
    for row in together:
        folder = f"a folder in {row['precision']}"
        if row["of_perfect"]:
            found.append(goal_row(f"{folder}: share of a perfect overlap", 0.85, row, "of_perfect", least=True))
            found.append(goal_row(f"{folder}: clips a minute, × those before", 1.5, row, "times", unit="×", least=True))
        found.append(goal_row(f"{folder}: peak memory of all processes", 1536, row, "peak_mib", unit=" MiB"))
    for row in rows:
        if (row["kind"], row["what"]) == ("fixed", "now"):
            found.append(goal_row("fixed cost of one clip: before, × now", 2, row, "times", unit="×", least=True))
    return goals(found)


def clip_table() -> str:
    """Seconds that a user waits on a CPU, beside the most that was asked for."""

    def asked(row: Row) -> float | None:
        if row["what"] != "next clip":
            return WAITS[row["what"]]
        return {"bf16": WAITS["next clip"], "float32": float(row["networks"]) + 1}.get(row["precision"])

    def reached(row: Row) -> str:
        most = asked(row)
        return "" if most is None else "yes" if float(row["seconds"]) <= most else "no"

    columns: Columns = {
        "what": lambda row: row["what"] if row["what"] in ("new process", "next clip") else f"`{row['what']}`",
        "precision": itemgetter("precision"),
        "s": lambda row: f"{row['seconds']} ({row['low']}–{row['high']})",
        "networks, s": itemgetter("networks"),
        "asked": lambda row: "" if asked(row) is None else f"≤ {asked(row):.3g}",
        "reached": reached,
        "times measured": itemgetter("runs"),
        "commit": itemgetter("commit"),
    }
    return markdown(rows_of("caption-clip", cpu=True), columns)


def clip_conditions() -> str:
    made = {(r["processor"], r["cores"], r["torch"]) for r in rows_of("caption-clip", cpu=True)}
    return "".join(f"{processor}; {cores} cores, torch {torch}\n" for processor, cores, torch in sorted(made))


def profile(name: str, lines: int = 13, width: int = 96) -> str:
    """The head of a kernel table."""
    text = (RESULTS / "profiles" / f"{name}.txt").read_text(encoding="utf-8")
    first, *rest = text.splitlines()[:lines]
    summary = first.split(": ", 1)[1].replace(", ", "\n")
    return "".join(f"    {line[:width]}".rstrip() + "\n" for line in [*summary.splitlines(), *rest])


def conditions_line(name: str) -> str:
    made = {(r["device"], r["driver"], r["torch"], r["triton"], r["commit"]) for r in rows_of(name)}
    return "".join(
        f"{device}, driver {driver}, torch {torch}, triton {triton}, commit {commit}\n"
        for device, driver, torch, triton, commit in sorted(made)
    )


def markdown(rows: list[Row], columns: Columns) -> str:
    if not rows:
        return "Not measured yet.\n"
    lines = [list(columns), ["---"] * len(columns), *([cell(row) for cell in columns.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "train": train_table,
    "baselines": baselines_table,
    "baselines-conditions": lambda: conditions_line("train-baselines"),
    "train-conditions": lambda: conditions_line("train"),
    "epoch": epoch_table,
    "table-3": table_3,
    "reward": reward_table,
    "reward-conditions": lambda: conditions_line("reward"),
    "epoch-conditions": lambda: conditions_line("train-epoch"),
    "generate": generate_table,
    "generate-conditions": lambda: conditions_line("generate"),
    "goals": goals_table,
    "attention": attention_table,
    "attention-conditions": lambda: conditions_line("attention"),
    "tiles": tiles_table,
    "tiles-conditions": lambda: conditions_line("attention-tiles"),
    "curves": curves_table,
    "curves-conditions": lambda: conditions_line("train-curves"),
    "complexity-exponents": exponents_table,
    "complexity-conditions": lambda: conditions_line("complexity"),
    "profile-unary": lambda: profile("train-hoca-u-bf16"),
    "profile-bf16": lambda: profile("train-l-hoca-ubt-bf16"),
    "profile-float32": lambda: profile("train-l-hoca-ubt-float32"),
    "profile-exact": lambda: profile("train-hoca-ubt-bf16"),
    "profile-generate": lambda: profile("generate-l-hoca-ubt-float32"),
    "caption": caption_table,
    "caption-goals": caption_goals,
    "clip": clip_table,
    "clip-conditions": clip_conditions,
    "scale": scale_table,
    "ray": ray_table,
    "coordinator": coordinator_table,
    "peers": peers_table,
    "joined": joined_table,
    "scaling": scaling_table,
}


def fill(text: str) -> str:
    """The text with every marked block made anew."""
    return BLOCK.sub(lambda found: found[1] + BLOCKS[found[2]]() + found[4] if found[2] in BLOCKS else found[0], text)


def draw(out: Path) -> None:
    """Milliseconds and memory of a training step, model by model and path by path."""
    rows = [row for row in by_model("train") if "joined" not in row["path"]]
    models = list(dict.fromkeys(row["model"] for row in rows))
    bars = list(dict.fromkeys((row["path"], row["precision"]) for row in rows))
    figure = new_figure(width=9, height=3.4)
    for axis, (column, title) in zip(
        figure.subplots(1, 2), {"ms": "ms a training step", "peak_gb": "peak memory, GB"}.items(), strict=True
    ):
        for place, (path, precision) in enumerate(bars):
            values = [float(row[column]) for row in rows if (row["path"], row["precision"]) == (path, precision)]
            centres = [number + (place - (len(bars) - 1) / 2) * 0.2 for number in range(len(models))]
            hatch = "//" if precision == "bf16" else ""
            drawn = axis.bar(centres, values, 0.18, color=PATHS[path], hatch=hatch, label=f"{path}, {precision}")
            axis.bar_label(drawn, fmt="%.3g", fontsize=7)
        axis.set_xticks(range(len(models)), models)
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    save(figure, out, dpi=120)


def main() -> None:
    for page in (DOCS / "speed.md", DOCS / "scaling.md", DOCS / "kernels.md"):
        text = fill(page.read_text(encoding="utf-8"))
        with replacing(page) as temporary:
            temporary.write_text(text, encoding="utf-8")
        print(page)
    if rows_of("train"):
        draw(DOCS / "speed-train.png")
    if rows_of("complexity"):
        complexity.draw(rows_of("complexity"), DOCS / "complexity.png")


if __name__ == "__main__":
    main()
