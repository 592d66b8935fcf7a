"""The container image, and its tools."""

from support.bench_loader import load_bench
from support.install.artefacts import load_artefact_script

VOLUME = "vol-0123456789abcdef0"


build = load_artefact_script("container/build")


bench = load_bench("artefacts/container")
