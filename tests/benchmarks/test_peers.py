"""Others' code beside ours, with a stand-in for a checkout."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from .scripts import FOLDER, start

STAND_IN = """
import torch
from torch import nn
from models.attention import mean

class Decoder(nn.Module):
    def __init__(self, rnn_type, num_layers, num_directions, feat_size, feat_len, embedding_size, hidden_size,
                 attn_size, output_size, rnn_dropout):
        super().__init__()
        self.embedding = nn.Embedding(output_size, embedding_size)
        self.rnn = getattr(nn, rnn_type)(embedding_size + feat_size, hidden_size, num_layers)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden, feats):
        both = torch.cat([self.embedding(input), mean(feats)[None]], dim=2)
        output, hidden = self.rnn(both, hidden)
        return torch.log_softmax(self.out(output[0]), dim=1), hidden, None
"""
TINY = ("videos=2", "words=3", "steps=4", "hidden=8", "attention=8", "vocabulary=30", "--calls", 3, "--device", "cpu")


def test_all_are_timed_in_one_run(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "decoder.py").write_text(STAND_IN)
    (tmp_path / "models" / "attention.py").write_text("def mean(feats):\n    return feats.mean(1)\n")
    out = tmp_path / "peers.csv"
    start("peers", *TINY, "--sa-lstm", tmp_path, "--out", out)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["who"], row["what"]) for row in rows] == [
        ("hoca-u", "step"),
        ("hoca-u", "captions"),
        ("l-hoca-ubt", "step"),
        ("l-hoca-ubt", "captions"),
        ("SA-LSTM, decoder alone", "step"),
        ("transformers, BART of like size", "step"),
        ("transformers, BART of like size", "captions"),
    ]
    for row in rows:
        assert float(row["ms"]) > 0
        assert int(row["weights"]) > 0
        assert bool(row["captions_per_second"]) == (row["what"] == "captions")


def test_a_folder_without_that_decoder_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "peers.py"), *map(str, TINY), "--no-transformers", "--sa-lstm"]
    done = subprocess.run(
        [*command, str(tmp_path), "--out", str(tmp_path / "t.csv")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"peers: --sa-lstm {tmp_path}: no models/decoder.py")
