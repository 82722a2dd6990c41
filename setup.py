"""Build METEOR's inner loop where there is a C compiler; without one the Python fallback gives the same numbers."""

from __future__ import annotations

from setuptools import Extension, setup

setup(ext_modules=[Extension("hoca.metrics._meteor", ["src/hoca/metrics/_meteor.c"], optional=True)])
