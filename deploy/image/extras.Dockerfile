# Variants of the worker's image, each with some of its extras: `make image EXTRAS="openvino parquet"`, docs/image.md. They add
# layers to the image, which stays as it is.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
ARG WORKER=localhost/coversumm-worker:latest

FROM ${WORKER} AS worker

# Of OpenVINO the worker loads the plugin for processors alone, and of PyArrow neither Flight nor the file system S3.
FROM ${BASE} AS build
WORKDIR /opt/extras/lib/python3.11/site-packages
RUN --mount=type=bind,source=build/image/extras,target=/wheels \
    export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 \
 && python3.11 -m venv /tmp/pip \
 && /tmp/pip/bin/pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target . /wheels/*.whl \
 && rm -rf /tmp/pip bin openvino/include openvino/cmake openvino/libs/cache.json pyarrow/include pyarrow/src pyarrow/tests \
 && find . -regex '.*/libopenvino_.*_\(gpu\|npu\)_plugin.*\|.*/libopenvino_\(auto\|hetero\).*\|.*/libopenvino_.*_frontend.*' -delete \
 && find . -regex '.*/libarrow_\(flight\|python_flight\|s3\)\.so.*\|.*/pyarrow/_\(flight\|s3fs\)\..*' -delete \
 && find . -type f -regex '.*\.\(c\|cc\|h\|hpp\|pxd\|pxi\|pyi\|pyx\)' -delete \
 && python3.11 -m compileall -f -q -j 1 --invalidation-mode unchecked-hash .

FROM build AS sbom
COPY --from=worker /var/lib/dpkg /tmp/dpkg
COPY --from=worker /opt/worker/lib /opt/worker/lib
RUN --mount=type=bind,source=build/image/tools,target=/tools \
    --mount=type=bind,source=deploy/image/sbom.py,target=/sbom.py \
    python3.11 -m venv --without-pip /opt/worker \
 && cp -r /opt/extras/. /opt/worker \
 && python3.11 -m venv /tmp/tools \
 && /tmp/tools/bin/pip install --quiet --no-index --no-deps --no-cache-dir /tools/*.whl \
 && /tmp/tools/bin/cyclonedx-py environment --output-reproducible --output-file /tmp/python.json /opt/worker/bin/python \
 && /tmp/tools/bin/python /sbom.py /tmp/python.json /tmp/dpkg /opt/coversumm-worker.cdx.json

FROM worker
COPY --from=build /opt/extras /opt/worker
COPY --from=sbom /opt/coversumm-worker.cdx.json /usr/share/sbom/coversumm-worker.cdx.json
