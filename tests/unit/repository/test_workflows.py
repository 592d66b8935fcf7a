"""What the workflow files run, and may do; `make lint` checks their schema."""

import re

import pytest
import yaml

from support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEPS = [
    (path, job, step)
    for path in WORKFLOWS
    for job in yaml.safe_load(path.read_text())["jobs"].values()
    for step in job["steps"]
]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_gives_a_reason(path):
    text = path.read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert all("  # " in line for line in text.splitlines() if line.endswith("write") or ": write " in line)


def test_workflows_call_the_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {name for _, _, step in STEPS for name in re.findall(r"\bmake ([a-z]+)", step.get("run", ""))}
    assert called == {"check", "release"}
    assert called <= targets
    assert (ROOT / ".ci" / "run").read_text().endswith("make test\n")


def test_only_the_checkout_and_python_come_from_elsewhere_and_no_credentials_stay():
    used = {step["uses"].partition("@")[0] for _, _, step in STEPS if "uses" in step}
    assert used == {"actions/checkout", "actions/setup-python"}
    checkouts = [step for _, _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)
