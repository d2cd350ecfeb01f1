# The server, from the locked requirements. Its environment is built in one stage and copied into another, which has no build requirements.

FROM python:3.11-slim AS build
WORKDIR /build
COPY requirements/build.txt requirements/server.txt requirements/
RUN python -m venv /opt/build && \
    /opt/build/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: --requirement requirements/build.txt && \
    python -m venv /opt/topicpolicies && \
    /opt/topicpolicies/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: --requirement requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY clients/python clients/python
COPY clients/spark clients/spark
COPY server server
RUN /opt/build/bin/python -m hatchling build --target wheel && \
    (cd clients/python && /opt/build/bin/python -m hatchling build --target wheel --directory /build/dist) && \
    /opt/topicpolicies/bin/pip install --no-cache-dir --no-index --no-deps dist/*.whl

FROM python:3.11-slim
LABEL org.opencontainers.image.title="topicpolicies" \
      org.opencontainers.image.description="gRPC sidecar for the topic policies of Apache Pulsar" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim"
RUN useradd --system --uid 10001 --no-create-home topicpolicies && \
    install --directory --owner=topicpolicies --group=topicpolicies --mode=0700 /var/lib/topicpolicies
COPY --from=build /opt/topicpolicies /opt/topicpolicies
# Without another word the embedded log is kept in the user's data folder, which is /var/lib/topicpolicies here.
ENV PATH=/opt/topicpolicies/bin:$PATH PYTHONUNBUFFERED=1 XDG_DATA_HOME=/var/lib
USER 10001
# The embedded log: one SQLite file, and what stands beside it. Not needed when the log is Pulsar's.
VOLUME /var/lib/topicpolicies
EXPOSE 6680
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["topicpolicies", "health"]
ENTRYPOINT ["topicpolicies"]
# Every option is an environment variable too; `docker run ... config` shows what is in force.
# Loopback only, as everywhere: reachable from the same network namespace (the other containers of a pod, `--network container:...`).
# To be reached from elsewhere the server wants TLS, or to be told that something in front of it protects it:
#   docker run -e TOPICPOLICIES_LISTEN=0.0.0.0:6680 -e TOPICPOLICIES_INSECURE_LISTEN=true \
#       -e TOPICPOLICIES_PULSAR=pulsar://broker:6650 -e TOPICPOLICIES_ADMIN_URL=http://broker:8080 ...
# The health check is a client: it asks localhost:6680, without TLS, unless its own variables say otherwise. With TLS:
#   docker run -e TOPICPOLICIES_TLS_CERTIFICATE=/tls/server.pem -e TOPICPOLICIES_TLS_KEY=/tls/server.key \
#       -e TOPICPOLICIES_CLIENT_TLS_CA=/tls/ca.pem -e TOPICPOLICIES_CLIENT_TLS_SERVER_NAME=sidecar.example ...
# With another port TOPICPOLICIES_SERVER too; with --tls-client-ca also TOPICPOLICIES_CLIENT_TLS_CERTIFICATE and TOPICPOLICIES_CLIENT_TLS_KEY.
CMD ["serve"]
