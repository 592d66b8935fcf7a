"""What the lab takes from a report of burstctl aws-check."""

import pytest

from burstlab.serve.measured_settings import ReportError, settings_from_report


@pytest.mark.parametrize(
    "facts",
    [
        None,
        ["balance-delay"],
        [{"name": "balance-delay", "answer": "x", "values": {"least_s": "a", "most_s": 3}}],
    ],
)
def test_an_invalid_report_is_refused_with_a_reason(facts):
    with pytest.raises(ReportError, match="measure"):
        settings_from_report({"schema": "burstwatch.aws-check/v1", "facts": facts})
