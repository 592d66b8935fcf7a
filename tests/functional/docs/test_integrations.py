"""What is in integrations/: rules and a dashboard that query only exported metrics, and link to pages."""

import re
import shutil
import subprocess
from itertools import combinations, pairwise

import pytest
import yaml

from burstctl.watch.exporter_metrics import METRICS
from support.paths import DASHBOARD, ROOT, RULES

PROMTOOL = shutil.which("promtool")
RULE_TESTS = RULES.with_name("alerts_test.yaml")
PAGE = ROOT / "docs" / "prometheus.md"
COLUMNS = 24
LABELS = {label for metric in METRICS for label in metric.labels} | {"instance", "job"}
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")


def panels_of(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries_of(dashboard):
    requested = [target["expr"] for panel in panels_of(dashboard) for target in panel["targets"]]
    return [
        *requested,
        *(item["definition"] for item in dashboard["templating"]["list"] if "definition" in item),
    ]


def metrics_in(text):
    return set(re.findall(r"\bburstwatch_[a-z_]+", text))


def run_promtool(*arguments):
    completed = subprocess.run(
        [PROMTOOL, *map(str, arguments)],
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return completed.returncode, completed.stdout + completed.stderr


# -- the alert rules


@needs_promtool
def test_promtool_accepts_the_rules():
    assert run_promtool("check", "rules", RULES)[0] == 0


@needs_promtool
def test_the_rules_fire_when_they_should_and_name_what_to_do():
    code, text = run_promtool("test", "rules", RULE_TESTS)
    assert code == 0, text


def test_each_rule_is_tested_and_each_but_the_simplest_also_does_not_fire(rules):
    tested = [
        case for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for case in test["alert_rule_test"]
    ]
    names = {rule["alert"] for rule in rules}

    assert {case["alertname"] for case in tested if case["exp_alerts"]} == names
    assert len({case["alertname"] for case in tested if not case["exp_alerts"]}) >= 6


def test_each_rule_queries_exported_metrics(rules):
    known = {metric.full_name for metric in METRICS}
    for rule in rules:
        requested = metrics_in(rule["expr"]) | metrics_in(rule["annotations"]["description"])
        assert requested
        assert requested <= known


def test_each_rule_has_the_name_of_its_page_and_leads_there(rules):
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"runbooks/{rule['alert']}.md"
        assert (ROOT / rule["annotations"]["runbook_url"]).is_file()
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["labels"]["severity"] in ("warning", "critical")


# -- the dashboard


def test_each_dashboard_query_uses_exported_metrics(dashboard):
    known = {metric.full_name for metric in METRICS}
    requested = set().union(*map(metrics_in, queries_of(dashboard)))
    assert requested <= known


def test_labels_in_queries_and_legends_are_those_of_the_metrics(dashboard):
    for query in queries_of(dashboard):
        for labels in re.findall(r"(?:by|on|group_left) \(([a-z_, ]+)\)", query):
            assert set(labels.split(", ")) <= LABELS
    legends = " ".join(
        target.get("legendFormat", "") for panel in panels_of(dashboard) for target in panel["targets"]
    )
    assert set(re.findall(r"{{(\w+)}}", legends)) <= LABELS


def test_every_metric_of_the_fleet_is_shown_or_alerted_on(rules, dashboard):
    used = set().union(*(metrics_in(rule["expr"]) for rule in rules), *map(metrics_in, queries_of(dashboard)))
    unused = {metric.full_name for metric in METRICS} - used
    assert unused == {
        "burstwatch_build_info",
        "burstwatch_failures_total",
        "burstwatch_lowest_burst_balance_ratio",
        "burstwatch_volume_datapoint_timestamp_seconds",
        "burstwatch_volumes_in_focus",
        "burstwatch_volumes_left_out",
    }, "those for questions of one's own"


@needs_promtool
def test_prometheus_understands_every_query_of_the_dashboard(dashboard, tmp_path):
    known = {"$region": "us-east-1", "$__rate_interval": "5m"}
    rules = []
    for query in queries_of(dashboard):
        if not query.startswith("label_values("):
            expression = re.sub(r"\$\w+", lambda match: known[match[0]], query)
            rules.append({"record": f"query:{len(rules)}", "expr": expression})
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    code, text = run_promtool("check", "rules", file)

    assert (code, f"{len(rules)} rules found" in text) == (0, True), text


def test_the_dashboard_holds_nothing_of_the_machine_it_was_made_on(dashboard):
    text = DASHBOARD.read_text()
    assert dashboard["id"] is None
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"burstwatch", "${datasource}", "-- Grafana --"}
    assert not re.search(r"https?://|localhost|127\.0\.0\.1|/home/|vol-[0-9a-f]{8}", text)
    variable = dashboard["templating"]["list"][0]
    assert (variable["name"], variable["type"], variable["current"]) == ("datasource", "datasource", {})


def test_panels_have_ids_and_places_of_their_own(dashboard):
    every = dashboard["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS for place in places_of(every))
    assert not [pair for pair in combinations(places_of(every), 2) if overlap(*pair)]
    assert all(item["y"] <= other["y"] for item, other in pairwise(places_of(every))), (
        "read from top to bottom"
    )


def test_each_panel_queries_the_chosen_prometheus_and_its_targets_have_unique_letters(dashboard):
    for panel in panels_of(dashboard):
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters) >= 1
        assert all(target["expr"].strip() for target in panel["targets"])
        assert panel["title"]


def places_of(panels):
    return [panel["gridPos"] for panel in panels]


def overlap(item, other):
    apart = (
        item["x"] + item["w"] <= other["x"]
        or other["x"] + other["w"] <= item["x"]
        or item["y"] + item["h"] <= other["y"]
        or other["y"] + other["h"] <= item["y"]
    )
    return not apart


# -- the page


def test_the_pages_name_every_metric_with_its_labels_and_no_other():
    reference = (PAGE.parent / "reference" / "metrics.md").read_text()
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        assert f"| `{metric.full_name}` | {metric.kind} | {labels} |" in reference
    names = {metric.full_name for metric in METRICS}
    assert metrics_in(reference) == names
    assert metrics_in(PAGE.read_text()) <= names
