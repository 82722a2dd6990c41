"""A vocabulary as a file: a JSON list of its words."""

from __future__ import annotations

import json
from pathlib import Path

from hoca.errors import UserError
from hoca.files import replacing
from hoca.text import Vocabulary


def write_vocabulary(vocabulary: Vocabulary, path: Path | str) -> None:
    with replacing(Path(path)) as temporary:
        temporary.write_text(json.dumps(vocabulary.to_json(), ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def read_vocabulary(path: Path | str) -> Vocabulary:
    try:
        return Vocabulary.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise UserError(f"cannot read the vocabulary {path} ({error.strerror})") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a vocabulary, a JSON list of words ({error})") from None
