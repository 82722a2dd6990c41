"""Run the code cells of notebooks one after the other, each notebook in a folder of its own: `test_tutorials.py`.

The first argument is a JSON object: notebook → values that replace those of its cell with the tag `parameters`. So is
the last line of standard output: notebook → what it printed, and the traceback that ended it, if any.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import traceback
from pathlib import Path


def run(notebook: Path, parameters: dict[str, object]) -> dict[str, object]:
    folder = Path(notebook.stem).absolute()
    folder.mkdir()
    printed, names, error = io.StringIO(), {"__name__": "__main__"}, None
    begun = time.perf_counter()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        try:
            for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
                if cell["cell_type"] == "code":
                    exec(compile("".join(cell["source"]), f"{notebook.name} {cell['id']}", "exec"), names)
                if "parameters" in cell["metadata"].get("tags", ()):
                    names.update(parameters)
        except Exception:
            error = traceback.format_exc()
    return {"printed": printed.getvalue(), "error": error, "seconds": round(time.perf_counter() - begun, 1)}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps({path: run(Path(path), parameters) for path, parameters in asked.items()}))
