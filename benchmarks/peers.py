"""Our training step and search beside those of others, in one run: a public SA-LSTM, and a `generate` of transformers.

    python benchmarks/peers.py --sa-lstm CHECKOUT --device cuda         # results/peers.csv
    python benchmarks/peers.py --device cpu videos=4 words=5 steps=6 hidden=16 attention=16 vocabulary=50

CHECKOUT is the folder of a repository whose `models/decoder.py` has the class `Decoder` that many of the field share:
`Decoder(rnn_type, num_layers, num_directions, feat_size, feat_len, embedding_size, hidden_size, attn_size, output_size,
rnn_dropout)`, called with words [1, B], its state and features [B, T, width] for one word at a time. It is imported
from there and runs as code of that folder: give one that you trust. Without it, that peer is left out. transformers
comes with `hoca[hf]`; its encoder-decoder is made here, of about as many weights as ours, with random ones.

The sizes are the paper's (`hoca bench train`). A peer's SA-LSTM is the decoder alone, over one modality and without an
encoder: less work than ours does. No peer's losses or sentences are compared with ours: the weights are random.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hoca.bench import Row, conditions, measure, peak_memory, write_rows
from hoca.bench.workload import WIDTHS, Sizes, all_alone, fresh, in_turn
from hoca.devices import choose_device
from hoca.errors import UserError
from hoca.generation import SentenceLimits, beam_search, inference
from hoca.options import from_arguments
from hoca.training.step import CapturedStep, PlainStep

RESULTS = Path(__file__).resolve().parent.parent / "results" / "peers.csv"
KEYS = ("who", "what", *asdict(Sizes()))
RATE, EMBEDDING, BEAM = 1e-4, 300, 5
OURS = ("hoca-u", "l-hoca-ubt")


def our_step(sizes: Sizes, name: str, device: torch.device) -> Callable[[], object]:
    recipe = sizes.recipe("float32")
    kind = CapturedStep if device.type == "cuda" else PlainStep
    step = kind(recipe.train, sizes.state(name, recipe, all_alone(device)), sizes.objective(recipe))
    batches = in_turn(sizes.batches(name, device, 2))
    return lambda: step(next(batches), RATE)


def our_captions(sizes: Sizes, name: str, device: torch.device) -> Callable[[], object]:
    model, features = sizes.model(name, device).eval(), sizes.features(device)
    limits = SentenceLimits(max_length=sizes.words)

    def search() -> object:
        with inference(model):
            return beam_search(model, model.encode(features, {}), limits, width=BEAM)

    return search


def sa_lstm_step(sizes: Sizes, decoder: nn.Module, device: torch.device) -> Callable[[], object]:
    """Word by word, as those repositories train: the loss of each word, then one update."""
    optimizer = torch.optim.Adam(decoder.parameters(), RATE)
    words = sizes.batch(torch.device("cpu")).words[:, 0].to(device)  # [B, L + 1]
    features = torch.randn(sizes.videos, sizes.steps, next(iter(WIDTHS.values())), device=device)

    def step() -> float:
        state = tuple(torch.zeros(1, sizes.videos, sizes.hidden, device=device) for _ in range(2))
        loss = torch.zeros((), device=device)
        for place in range(words.shape[1] - 1):
            scores, state, *_ = decoder(words[:, place].view(1, -1), state, features)
            loss = loss + F.nll_loss(scores, words[:, place + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


@contextmanager
def imported(folder: Path) -> Iterator[type[nn.Module]]:
    """The class `Decoder` of a checkout's `models/decoder.py`."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        yield importlib.import_module("models.decoder").Decoder
    except (ImportError, AttributeError, TypeError) as error:
        raise UserError(f"--sa-lstm {folder}: models/decoder.py is not the Decoder that is meant ({error})") from error
    finally:
        sys.path.remove(str(folder.resolve()))


def transformer(sizes: Sizes, device: torch.device) -> tuple[Any, Tensor]:
    """An encoder-decoder of transformers with about our width, over features of one modality as its inputs."""
    try:
        from transformers import BartConfig, BartForConditionalGeneration
    except ImportError:
        raise UserError("transformers is not installed: pip install 'hoca[hf]', or give --no-transformers") from None
    heads = 8 if sizes.hidden % 8 == 0 else 1
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = BartConfig(
        vocab_size=sizes.vocabulary,
        d_model=sizes.hidden,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * sizes.hidden,
        decoder_ffn_dim=4 * sizes.hidden,
        max_position_embeddings=max(sizes.steps, sizes.words) + 2,
        forced_eos_token_id=None,
        **special,
    )
    torch.manual_seed(0)
    model = BartForConditionalGeneration(config).to(device)
    return model, torch.randn(sizes.videos, sizes.steps, sizes.hidden, device=device)


def transformer_step(sizes: Sizes, device: torch.device) -> tuple[nn.Module, Callable[[], object]]:
    model, features = transformer(sizes, device)
    optimizer = torch.optim.AdamW(model.train().parameters(), RATE)
    words = sizes.batch(torch.device("cpu")).words[:, 0].to(device)

    def step() -> float:
        loss = model(inputs_embeds=features, decoder_input_ids=words[:, :-1], labels=words[:, 1:].contiguous()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return model, step


def transformer_captions(sizes: Sizes, device: torch.device) -> tuple[nn.Module, Callable[[], object]]:
    model, features = transformer(sizes, device)
    model.eval()
    wanted = {"num_beams": BEAM, "min_new_tokens": sizes.words, "max_new_tokens": sizes.words, "do_sample": False}
    return model, lambda: model.generate(inputs_embeds=features, **wanted)


class Table:
    def __init__(self, sizes: Sizes, device: torch.device, calls: int, out: Path) -> None:
        self.sizes, self.device, self.calls, self.out = sizes, device, calls, out

    def add(self, who: str, what: str, weights: int, work: Callable[[], object]) -> None:
        memory = peak_memory(work, self.device)
        timing = measure(work, self.device, calls=self.calls, warmup=2)
        rate = self.sizes.videos / timing.median if what == "captions" else None
        row: Row = conditions(self.device) | {"who": who, "what": what} | asdict(self.sizes)
        row |= {"weights": weights} | timing.columns() | {"captions_per_second": rate and f"{rate:.4g}"}
        write_rows(self.out, [row | {"peak_gb": memory and f"{memory / 1e9:.3f}"}], KEYS)
        print(f"{who}, {what}: {1e3 * timing.median:.4g} ms", flush=True)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", help="KEY=VALUE of hoca.bench.workload.Sizes, such as videos=25")
    parser.add_argument("--sa-lstm", type=Path, help="a checkout of a public SA-LSTM; its code is run")
    parser.add_argument("--no-transformers", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sizes, device = from_arguments(Sizes, given.sizes), choose_device(given.device)
    if given.sa_lstm is not None and not (given.sa_lstm / "models" / "decoder.py").is_file():
        raise UserError(f"--sa-lstm {given.sa_lstm}: no models/decoder.py in it, give the folder of the checkout")
    table = Table(sizes, device, given.calls, given.out)
    for name in OURS:
        weights = count(sizes.model(name, device))
        for what, made in {"step": our_step, "captions": our_captions}.items():
            fresh(device)
            table.add(name, what, weights, made(sizes, name, device))
    if given.sa_lstm is not None:
        fresh(device)
        width = next(iter(WIDTHS.values()))
        with imported(given.sa_lstm) as decoder:
            wanted = ("LSTM", 1, 1, width, sizes.steps, EMBEDDING, sizes.hidden, sizes.attention, sizes.vocabulary, 0.5)
            peer = decoder(*wanted).to(device)
        table.add("SA-LSTM, decoder alone", "step", count(peer), sa_lstm_step(sizes, peer, device))
    if not given.no_transformers:
        for what, peer_work in {"step": transformer_step, "captions": transformer_captions}.items():
            fresh(device)
            model, work = peer_work(sizes, device)
            table.add("transformers, BART of like size", what, count(model), work)
    print(given.out)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"peers: {error}")
