FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml CMakeLists.txt README.md LICENSE LICENSE-MIT LICENSE-APACHE ./
COPY engine engine
COPY registry registry
COPY slots slots
COPY server server
RUN python -m venv /opt/bankml && /opt/bankml/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/bankml /opt/bankml
RUN useradd --uid 10001 --create-home bankml && mkdir /models && chown bankml:bankml /models
# The default model is fetched into the volume once; mount your own there and add: -m /models/your.gguf
ENV PATH=/opt/bankml/bin:$PATH XDG_CACHE_HOME=/models BANKML_HOST=0.0.0.0
USER bankml
VOLUME /models
EXPOSE 11434
HEALTHCHECK --interval=30s --timeout=5s --start-period=300s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:11434/health', timeout=4)"]
ENTRYPOINT ["bankml"]
CMD ["serve"]
