# One node of a cluster: Python, our packages and what they need. `staticfire docker-image` builds it.
#
# The build context holds `wheels/`: ours and those it depends on, for the Python of the base image, so the build
# needs no network. BASE may be any image with python3 and its venv module.
ARG BASE=python:3.11-slim
FROM ${BASE}
COPY wheels /tmp/wheels
RUN python3 -m venv /opt/staticfire \
 && /opt/staticfire/bin/python -m pip install --quiet --no-index --find-links /tmp/wheels 'staticfire[cpp-client]' \
 && rm -rf /tmp/wheels
ENV PATH=/opt/staticfire/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL staticfire.image=node
CMD ["python", "-m", "staticfire.system_under_test", "--help"]
