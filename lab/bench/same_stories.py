"""Hypothesis for the benches that plant faults: the same stories every time, whatever is planted."""

import hypothesis


def tell_the_same_stories() -> None:
    """And stop at the first that fails.

    Of several it would make a group, which hides whether a test asserted; the smallest takes minutes to find.
    """
    hypothesis.settings.register_profile(
        "the same stories",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("the same stories")


def pytest_configure() -> None:
    """As a plugin, for runs in processes of their own."""
    tell_the_same_stories()
