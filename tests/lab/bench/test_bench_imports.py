"""Every benchmark: its names exist, so that it does not stop working when what it measures is renamed."""

from importlib.util import module_from_spec, spec_from_file_location

import pytest

from support.bench_loader import BENCHES

# Cloud Custodian has an environment of its own
SCRIPTS = sorted(set(BENCHES.rglob("*.py")) - {BENCHES / "comparison" / "custodian_worker.py"})


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(BENCHES)))
def test_a_benchmark_can_be_imported(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)
    spec = spec_from_file_location(f"imported_{path.stem}", path)
    spec.loader.exec_module(module_from_spec(spec))
