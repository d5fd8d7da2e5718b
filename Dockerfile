# syntax=docker/dockerfile:1
# Serves one run: docker run --publish 127.0.0.1:8000:8000 --volume "$PWD/runs/outfits:/run-directory:ro" contextual-bert
# With --target export the image serves an export, without torch. The guide: docs/guides/serve.md, "In a container".

FROM python:3.11-slim AS build
WORKDIR /source
RUN python -m venv /opt/contextual-bert
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

FROM build AS build-export
COPY constraints.txt requirements-export.txt ./
RUN /opt/contextual-bert/bin/pip install --constraint constraints.txt --requirement requirements-export.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/contextual-bert/bin/pip install --no-deps .

FROM build AS build-run
# torch for CPUs brings no CUDA libraries. Its version ends in "+cpu", which pip prefers to the one of PyPI. It comes first,
# so that a change of the source keeps the layer.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt ./
RUN /opt/contextual-bert/bin/pip install --constraint constraints.txt --extra-index-url "$TORCH_INDEX" torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/contextual-bert/bin/pip install --constraint constraints.txt '.[serve,onnxruntime]'

FROM python:3.11-slim AS server
LABEL org.opencontainers.image.title="contextual-bert" \
      org.opencontainers.image.description="Serves a run of contextual-bert over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"
# A number, so that Kubernetes can see that it is not root.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin server
# HF_HUB_OFFLINE: a run is all that is needed, so nothing is asked for. The caches lie in /tmp, so that the rest may be read-only.
ENV PATH=/opt/contextual-bert/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HF_HUB_OFFLINE=1 HF_HOME=/tmp/huggingface MPLCONFIGDIR=/tmp/matplotlib
USER 10001
VOLUME /run-directory
EXPOSE 8000
STOPSIGNAL SIGTERM
# Ready, not only alive: a server that still loads its model gets no traffic.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
# Inside the container 0.0.0.0 is the container's own network. Requests must name a host that is allowed, so that no website can read a server
# on its reader's machine: give your own names after the image, with the whole list of arguments.
ENTRYPOINT ["contextual-bert", "serve", "--host", "0.0.0.0"]
CMD ["--allow-host", "localhost", "/run-directory"]

FROM server AS export
COPY --from=build-export /opt/contextual-bert /opt/contextual-bert

FROM server AS run
COPY --from=build-run /opt/contextual-bert /opt/contextual-bert
