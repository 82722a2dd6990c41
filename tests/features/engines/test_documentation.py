from __future__ import annotations

import csv
import re

from hoca.bench.extraction import LEAST_COSINE

from ...conftest import ROOT, Command

PAGE = (ROOT / "docs" / "extract.md").read_text(encoding="utf-8")


def test_the_page_names_every_flag_and_no_other(hoca: Command) -> None:
    known = set(re.findall(r"--[a-z-]*[a-z]", hoca("extract", "--help").out)) - {"--help"}
    elsewhere = {"--layout"}  # of `hoca data export-features`
    assert set(re.findall(r"--[a-z-]*[a-z]", PAGE)) - elsewhere == known


def test_the_page_gives_the_measured_speeds() -> None:
    with open(ROOT / "results" / "bench-extract.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    measured = {float(row["times_real_time"]) for row in rows}
    shown = re.findall(r"^\| .* \| ([\d.,]+)(?: \(.*\))? \|$", PAGE, re.MULTILINE)
    assert len(shown) == 10
    assert {float(number.replace(",", "")) for number in shown} <= measured
    shares = [float(row["share_of_slower"]) for row in rows if row["share_of_slower"]]
    assert all(f"pipeline reaches {100 * share:.0f} %" in " ".join(PAGE.split()) for share in shares)
    assert all(float(row["least_cosine"]) >= LEAST_COSINE for row in rows if row["least_cosine"])
