# One image for every process; the command chooses which. Slim stages would save little: the agent's own packages
# are under 100 MB, so nodes install `gpu-lockstep` without extras instead of pulling this.
FROM python:3.11-slim

RUN useradd --create-home --uid 10001 lockstep
WORKDIR /opt/lockstep
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY alerts alerts
COPY collectors collectors
COPY detectors detectors
COPY lockstep lockstep
COPY runtime runtime
COPY schemas schemas
COPY simulator simulator
COPY storage storage
COPY streams streams
RUN pip install --no-cache-dir --constraint constraints.txt '.[worker,storage,alerts,files]'

# Compiled scoring code is cached here, so that a restarted worker does not compile it again.
ENV NUMBA_CACHE_DIR=/var/cache/lockstep
RUN mkdir -p /var/cache/lockstep /var/lib/lockstep && chown lockstep /var/cache/lockstep /var/lib/lockstep
VOLUME /var/lib/lockstep
USER lockstep
ENTRYPOINT ["lockstep"]
CMD ["--help"]
