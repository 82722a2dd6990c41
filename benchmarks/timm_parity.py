"""Compare Inception-ResNet-v2 with timm's, both with the same random weights, on random pictures.

    python benchmarks/timm_parity.py        (where timm is installed; it is no dependency of hoca)

Writes results/timm-parity.csv: the largest difference of the 1536 features, beside their size.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch

from hoca.files import replacing
from hoca.networks.inception_resnet import InceptionResNetV2, convert

ROOT = Path(__file__).resolve().parent.parent
PICTURES = 4


def main() -> None:
    import timm

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "timm-parity.csv")
    chosen = parser.parse_args()
    torch.manual_seed(0)
    theirs = timm.create_model("inception_resnet_v2", pretrained=False, num_classes=1000).eval()
    for part in theirs.modules():
        if isinstance(part, torch.nn.BatchNorm2d):  # fresh norms do nothing and would hide mistakes
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 2)
            part.weight.data.uniform_(0.5, 1.5)
            part.bias.data.normal_(0, 0.1)
    ours = InceptionResNetV2().eval()
    state = convert({name: value.numpy() for name, value in theirs.state_dict().items()})
    ours.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    pictures = torch.randint(0, 256, (PICTURES, 299, 299, 3), dtype=torch.uint8)
    with torch.inference_mode():
        normal = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        expected = theirs.forward_head(theirs.forward_features(normal), pre_logits=True)
        found = ours(pictures)
    difference = float((found - expected).abs().max())
    cosine = float(torch.nn.functional.cosine_similarity(found, expected).min())
    row = {
        "network": "inception_resnet_v2",
        "pictures": PICTURES,
        "width": found.shape[1],
        "largest value": f"{float(expected.abs().max()):.6g}",
        "largest difference": f"{difference:.3g}",
        "least cosine": f"{cosine:.7f}",
        "timm": timm.__version__,
        "torch": torch.__version__,
    }
    with replacing(chosen.out) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, row, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
    print(*(f"{key}: {value}" for key, value in row.items()), sep="\n")
    if difference > 1e-3 * float(expected.abs().max()):
        raise SystemExit("the features differ")


if __name__ == "__main__":
    main()
