# docker build -t berth-scheduler .        with git history: pbr takes the version from it
# docker build --build-arg PBR_VERSION=0.1.0 -t berth-scheduler .        without

# Any Debian or Ubuntu with Python 3.11 to 3.13 and its venv module: --build-arg BASE=registry.example.org/debian:12
ARG BASE=python:3.11-slim-bookworm

FROM $BASE AS build
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
ARG PBR_VERSION
COPY . /source
RUN python3 -m venv /opt/berth \
    && PYTHON=/opt/berth/bin/python /source/tools/install --no-cache-dir -c constraints.txt \
    && /opt/berth/bin/pip install --no-cache-dir -c /source/constraints.txt \
        "psycopg2-binary>=2.9.9" "openstacksdk>=4.0.0" \
    && /opt/berth/bin/pip uninstall -y pip

FROM $BASE
# The ids of nova in the images of kolla: /etc/nova and volumes of nova-scheduler can be taken over as they are.
# OpenStack-Helm: --build-arg UID=42424
ARG UID=42436
RUN groupadd --gid $UID nova \
    && useradd --uid $UID --gid nova --home-dir /var/lib/nova --create-home --shell /usr/sbin/nologin nova
COPY --from=build /opt/berth /opt/berth
# What deployment tools start, and probes look for
RUN ln -s /opt/berth/bin/berth-scheduler /usr/local/bin/nova-scheduler
ENV PATH=/opt/berth/bin:$PATH PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2 OS_BERTH__MONITORING_LISTEN=127.0.0.1:9812
USER nova
VOLUME /var/lib/nova
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=150s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9812/healthz', timeout=8)"]
ENTRYPOINT ["berth-scheduler"]
CMD ["--config-file", "/etc/nova/nova.conf"]
