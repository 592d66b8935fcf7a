"""A plugin of pytest for `mutants.py`: Hypothesis tries the same examples every time, whatever is planted."""

import hypothesis


def pytest_configure() -> None:
    """Stop at the first example that fails: to find the smallest takes minutes."""
    hypothesis.settings.register_profile(
        "the same examples",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("the same examples")
