# CPU:   docker build -t hoca .
# GPU:   docker build -t hoca:cuda --target cuda .
# docs/docker.md says how to run it. tests/docs/test_dockerfile.py runs what can be run of it without a Docker engine.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS wheel
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt setuptools
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation -w /wheels .

FROM python:${PYTHON}-slim AS base
ARG TORCH_INDEX=
ARG EXTRAS=web,h5
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} -c /wheels/constraints.txt torch
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir -c /wheels/constraints.txt "$(echo /wheels/hoca-*.whl)[${EXTRAS}]"
RUN useradd --create-home --uid 1000 hoca && mkdir /weights && chmod 1777 /weights
# The last two are for users without a home folder, as `--user` makes them.
ENV HOCA_HOME=/weights MPLCONFIGDIR=/tmp/matplotlib TRITON_CACHE_DIR=/tmp/triton
VOLUME /weights
WORKDIR /data
USER hoca
ENTRYPOINT ["hoca"]
CMD ["--help"]

# Triton compiles a small C program for each kernel when it first runs.
FROM base AS cuda
USER root
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir -c /wheels/constraints.txt "$(echo /wheels/hoca-*.whl)[gpu]"
USER hoca

FROM base AS cpu
