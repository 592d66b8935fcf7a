"""Where the repository is."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


RULES = ROOT / "integrations" / "prometheus" / "alerts.yaml"


DASHBOARD = ROOT / "integrations" / "grafana" / "burstwatch.json"
