"""The feature store: a folder with one `<video id>.safetensors` per video, all its modalities, float16."""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hoca.errors import UserError
from hoca.features.index import Header, headers_of
from hoca.files import replacing

FORMAT = "hoca-features-1"
SUFFIX = ".safetensors"
DTYPES = {"F16", "F32", "F64"}
FIRST = ("image", "motion", "audio")
LONGEST_NAME = 200  # bytes; file systems allow 255, and a file being written has a longer name

Specification = dict[str, Any]


class FeatureStore:
    """Features of many videos, each in its own file; a file is either whole or not there."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def path(self, id: str) -> Path:
        if not id or id.startswith(".") or any(mark in id for mark in "/\\\0"):
            raise UserError(f"video id {id!r} cannot be a file name in {self.folder}: use letters, digits, - and _")
        if len(os.fsencode(id)) > LONGEST_NAME:
            raise UserError(f"video id {id!r} is too long for a file name in {self.folder}: rename the video")
        return self.folder / f"{id}{SUFFIX}"

    def ids(self) -> list[str]:
        """All stored video ids, sorted."""
        if not self.folder.is_dir():
            return []
        names = (entry.name for entry in self.folder.iterdir())
        return sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX) and name[0] != ".")

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.path(id).is_file()

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def __len__(self) -> int:
        return len(self.ids())

    def __getitem__(self, id: str) -> dict[str, np.ndarray]:
        """Features [T, width], float32, of the modalities that the video has, in the order of `widths`."""
        with self._open(id) as file:
            header = _header(file, self.path(id))
            try:
                return {name: file.get_tensor(name).astype(np.float32) for name in ordered(header.shapes)}
            except (SafetensorError, OSError) as error:
                raise UserError(
                    f"{self.path(id)} is not a readable feature file ({error}): delete it and extract it again"
                ) from None

    def header(self, id: str) -> Header:
        with self._open(id) as file:
            return _header(file, self.path(id))

    def current(self, id: str, specification: Mapping[str, Any], size: int | None = None) -> Header | None:
        """The header of a video whose features need not be made again: the file is whole, was made as `specification`
        says, and from a video file of `size` bytes where both are known."""
        try:
            header = self.header(id) if id in self else None
        except UserError:
            return None
        return header if header is not None and is_current(header, specification, size) else None

    def sweep(self, older_than: float = 3600) -> None:
        """Remove what writers that were killed have left behind; a younger one may still be being written."""
        left = list[os.DirEntry[str]]()
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder) as entries:
            left = [entry for entry in entries if entry.name.startswith(".") and entry.name.endswith(".tmp")]
        for entry in left:
            with suppress(OSError):
                if SUFFIX in entry.name and time.time() - entry.stat().st_mtime > older_than:
                    os.unlink(entry)

    def write(
        self,
        id: str,
        features: Mapping[str, np.ndarray],
        *,
        specification: Mapping[str, Any],
        absent: Mapping[str, str] | None = None,
        duration: float | None = None,
        size: int | None = None,
        wait: bool = True,
    ) -> None:
        """Store features [T, width] of one video; `absent` says why a modality of the specification is missing.

        `size` is that of the video file in bytes: another file under the same name is then seen to be another one.
        Without `wait` the file may not be on the disk yet, as `replacing` says.
        """
        absent = dict(absent or {})
        path = self.path(id)
        for name in features:
            if name in absent:
                raise UserError(f"features of {id}: {name} is both given and absent; leave one out")
        if duration is not None and not 0 <= duration < math.inf:
            raise UserError(f"features of {id}: a video of {duration} s; give its duration, or none")
        stored = {name: _half(values, f"{name} features of {id}") for name, values in features.items()}
        about = {
            "modalities": list(stored),
            "specification": specification,
            "absent": absent,
            "duration": duration,
            "size": size,
        }
        # One key, because safetensors writes several in no fixed order and the same features should be the same bytes.
        metadata = {FORMAT: json.dumps(about)}
        with replacing(path, wait=wait) as temporary:
            save_file(stored, temporary, metadata=metadata)
        self.__dict__.pop("headers", None)

    def survey(self) -> dict[str, Header | UserError]:
        """The header of every file, or what is wrong with it, sorted; files that are as they were are not opened."""
        return headers_of(self.folder, SUFFIX, self.header)

    @cached_property
    def headers(self) -> dict[str, Header]:
        """The headers of all files, read once (and again after a write)."""
        found = {}
        for id, header in self.survey().items():
            if isinstance(header, UserError):
                raise header
            found[id] = header
        return found

    @property
    def widths(self) -> dict[str, int]:
        """Width of each modality: image, motion, audio, then others as stored. All files must agree."""
        return {name: width for name, (_, width) in self._agreed_shapes().items()}

    @property
    def steps(self) -> dict[str, int]:
        """The longest length T of each modality, in the order of `widths`."""
        return {name: steps for name, (steps, _) in self._agreed_shapes().items()}

    @property
    def specification(self) -> Specification:
        """How the features were made; a store whose files were made in different ways is an error."""
        texts = {id: json.dumps(header.specification, sort_keys=True) for id, header in self._filled().items()}
        usual = _most_common(texts.values())
        for id, text in texts.items():
            if text != usual:
                raise UserError(
                    f"{self.path(id)} was made with {text}, the other files of the store with {usual}: "
                    "extract it again or keep it in a store of its own"
                )
        return next(self.headers[id].specification for id, text in texts.items() if text == usual)

    def _filled(self) -> dict[str, Header]:
        if not self.headers:
            raise UserError(f"no feature files (<video id>{SUFFIX}) in {self.folder}: extract features into it first")
        return self.headers

    def _agreed_shapes(self) -> dict[str, tuple[int, int]]:
        shapes: dict[str, dict[str, tuple[int, int]]] = {}
        for id, header in self._filled().items():
            for name, shape in header.shapes.items():
                shapes.setdefault(name, {})[id] = shape
        agreed = {}
        for name in ordered(shapes):
            expected = _most_common(width for _, width in shapes[name].values())
            for id, (_, width) in shapes[name].items():
                if width != expected:
                    raise UserError(
                        f"{self.path(id)}: {name} features are {width} wide, expected {expected} as in the other "
                        "files of the store: extract it again with the same backbone"
                    )
            agreed[name] = (max(steps for steps, _ in shapes[name].values()), expected)
        return agreed

    def _open(self, id: str) -> Any:
        path = self.path(id)
        if not path.exists():
            raise UserError(f"no features of video {id} in {self.folder}: extract them first")
        if not path.is_file():  # to open a pipe would wait for ever
            raise UserError(f"{path} is not a readable feature file (no file at all): delete it and extract it again")
        try:
            return safe_open(path, framework="numpy")
        except (SafetensorError, OSError) as error:
            raise UserError(
                f"{path} is not a readable feature file ({error}): delete it and extract it again"
            ) from None


def is_current(header: Header, specification: Mapping[str, Any], size: int | None) -> bool:
    """Whether features were made as `specification` says, from a video file of `size` bytes where both are known."""
    other_file = size is not None and header.size is not None and header.size != size
    return not other_file and header.specification == specification


def ordered(names: Mapping[str, Any]) -> list[str]:
    """Image, motion, audio first, then the others in their own order."""
    return [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]


def _most_common(values: Any) -> Any:
    return Counter(values).most_common(1)[0][0]


def _half(values: np.ndarray, what: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2 or 0 in values.shape:
        raise UserError(f"{what}: shape {list(values.shape)}, expected [steps, width], neither of them 0")
    with np.errstate(over="ignore"):
        half = np.ascontiguousarray(values, dtype=np.float16)
    if not np.isfinite(half).all():
        raise UserError(f"{what}: values that float16 cannot hold (NaN, infinite or above 65504); scale them")
    return half


def _header(file: Any, path: Path) -> Header:
    try:
        about = json.loads((file.metadata() or {}).get(FORMAT, "{}"))
        modalities = about.get("modalities", list(file.keys()))
        shapes = {name: file.get_slice(name).get_shape() for name in modalities}
        if any(file.get_slice(name).get_dtype() not in DTYPES for name in shapes):
            raise ValueError(f"values of other types than {', '.join(sorted(DTYPES))}")
        specification, absent = about.get("specification", {}), about.get("absent", {})
        return Header.checked(shapes, specification, absent, about.get("duration"), about.get("size"))
    except (ValueError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise UserError(f"{path} is not a feature file of hoca ({error}): delete it and extract it again") from None
