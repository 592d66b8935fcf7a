"""What the lab takes from a report of burstctl aws-check."""

import pytest

from burstlab.serve.measured_settings import ReportError, as_measured


@pytest.mark.parametrize(
    "facts",
    [
        None,
        ["balance-delay"],
        [{"name": "balance-delay", "answer": "x", "values": {"least_s": "a", "most_s": 3}}],
    ],
)
def test_a_report_that_is_none_is_refused_in_words(facts):
    with pytest.raises(ReportError, match="measure"):
        as_measured({"schema": "burstwatch.aws-check/v1", "facts": facts})
