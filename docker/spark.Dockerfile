# `staticfire analyze` on Spark: Java, Python, our packages and what they need. For a driver, and for executors on
# Kubernetes (`--master k8s://... --conf spark.kubernetes.container.image=...` through spark-submit).
#
#   docker build -f docker/spark.Dockerfile -t staticfire-spark .
#   docker run --rm -v "$PWD/runs:/runs" staticfire-spark analyze --master 'local[*]' /runs
ARG BASE=python:3.11-slim
FROM ${BASE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN python3 -m venv /opt/staticfire \
 && /opt/staticfire/bin/python -m pip install --quiet --no-cache-dir --constraint /src/constraints.txt '/src[spark]' \
 && rm -rf /src
ENV PATH=/opt/staticfire/bin:$PATH PYTHONUNBUFFERED=1 PYSPARK_PYTHON=/opt/staticfire/bin/python
LABEL staticfire.image=spark
ENTRYPOINT ["tini", "--", "staticfire"]
CMD ["analyze", "--help"]
