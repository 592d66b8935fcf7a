"""What the stack costs: the docs have the table that the tool prints, and it is within the budget."""

import pytest

from burstctl.init.monthly_cost import list_monthly_costs
from support.paths import ROOT


def test_the_table_in_the_docs_is_what_the_tool_prints(stack_cost, pytestconfig):
    path = ROOT / "docs" / "deploying.md"
    before, _, rest = path.read_text().partition("<!-- bill -->\n")
    reported, _, after = rest.partition("<!-- /bill -->")
    if pytestconfig.getoption("--rewrite"):
        reported = f"{stack_cost.build_table()}\n"
        path.write_text(f"{before}<!-- bill -->\n{reported}<!-- /bill -->{after}")
    assert reported == f"{stack_cost.build_table()}\n"


def test_the_table_of_kinds_in_the_docs_is_what_the_tool_prints(stack_cost, pytestconfig):
    path = ROOT / "docs" / "deploying.md"
    before, _, rest = path.read_text().partition("<!-- kinds -->\n")
    reported, _, after = rest.partition("<!-- /kinds -->")
    if pytestconfig.getoption("--rewrite"):
        reported = f"{stack_cost.build_kinds_table()}\n"
        path.write_text(f"{before}<!-- kinds -->\n{reported}<!-- /kinds -->{after}")
    assert reported == f"{stack_cost.build_kinds_table()}\n"


def test_an_instance_costs_at_most_18_cents_a_month_and_nothing_if_it_cannot_drain(stack_cost):
    rows = [row.split(" | ") for row in stack_cost.build_kinds_table().splitlines() if "m5.large" in row]
    costs = [float(row[2].rstrip(" |")) for row in rows]
    assert costs[0] == 0
    assert max(costs) <= 180


def test_a_thousand_small_volumes_cost_at_most_forty_dollars_a_month(stack_cost, stack):
    *_, (_, usd, _) = list_monthly_costs(1_000, stack, len(stack_cost.quiet_tick_metrics()))
    assert usd <= 40


def test_reading_them_costs_at_most_twenty_nine(stack_cost, stack):
    [(_, usd, _), *_] = list_monthly_costs(1_000, stack, 0)
    assert usd == pytest.approx(
        1_000 * 4 * 24 * 30 * 1e-5
    )  # every 15 minutes, a hundred-thousandth of a dollar each
    assert usd <= 29


def test_the_total_is_the_sum_of_its_lines(stack_cost, stack):
    *lines, (_, total, after_free) = list_monthly_costs(10_000, stack, 20)
    assert total == pytest.approx(sum(usd for _, usd, _ in lines))
    assert after_free == pytest.approx(sum(free for _, _, free in lines))
