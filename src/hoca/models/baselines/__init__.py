"""The captioners that the paper's are compared with, one file each; a file that is added here is registered."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
