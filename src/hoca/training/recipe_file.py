"""The table of keys in a recipe file, which may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from hoca.errors import UserError
from hoca.files import require_file
from hoca.options import load_yaml, shortened

MOST_BYTES = 1 << 20


def read_yaml(path: Path) -> dict[str, Any]:
    """Keys and their values; of an empty file, none."""
    try:
        require_file(path)
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"the recipe {path} is larger than {MOST_BYTES} bytes: give a YAML file of a few keys")
        values = load_yaml(path.read_text(encoding="utf-8"), partial(_require_single_keys, path))
    except OSError as error:
        raise UserError(f"the recipe {path} cannot be read ({error.strerror}): give a YAML file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the recipe {path} is not UTF-8 text: save it as UTF-8") from error
    except UserError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that does not exist; an endless alias
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise UserError(f"the recipe {path} is not YAML{line}: one `key: value` per line is expected") from error
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise UserError(f"the recipe {path} must be a table of keys: one `key: value` per line")
    return dict(values)


def _require_single_keys(path: Path, node: Any) -> None:
    """YAML itself would let the second one win without a word."""
    seen = set()
    for each in node.value if isinstance(node, yaml.SequenceNode) else ():
        _require_single_keys(path, each)
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if not name:
            raise UserError(f"the recipe {path} has a key that is no text, at line {key.start_mark.line + 1}")
        if name in seen:
            raise UserError(f"the recipe {path} has the key {shortened(name)} twice: keep one of them")
        seen.add(name)
        _require_single_keys(path, value)
