"""What `make dist` adds to the artefacts: archives, checksums, bills and provenance.

Each artefact has a test of its own; lab/bench/artefacts/dist.py builds all of them twice and compares them.
"""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from hashlib import sha256

import pytest
from integrations import dist

from support.install.artefacts import assert_bill_is_complete
from support.paths import ROOT


def test_the_archives_are_the_same_bytes_each_time(out, template, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    (template / "burstwatch.template.json").touch()
    dist.build_archives(again, template, "1.2.3")
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in out.iterdir()
    }


def test_the_terraform_archive_has_the_template_where_the_module_looks_for_it(out):
    with zipfile.ZipFile(out / "burstwatch-1.2.3-terraform.zip") as archive:
        names = set(archive.namelist())
        mode = archive.getinfo("terraform/cloudformation/upload.sh").external_attr >> 16
    assert {"terraform/main.tf", "terraform/cloudformation/burstwatch.template.json"} <= names
    assert mode & 0o111


def test_the_chart_refers_to_no_page_that_its_archive_lacks(out):
    with tarfile.open(out / "burstwatch-1.2.3-chart.tgz") as archive:
        texts = [archive.extractfile(member).read().decode() for member in archive if member.isfile()]
    assert [re.findall(r"\S+\.md\b|\bdocs/\S+", text) for text in texts] == [[]] * 5


def test_every_file_is_in_the_checksums_and_in_the_provenance(out, tmp_path, monkeypatch):
    monkeypatch.setattr(dist.container, "PACKAGES", tmp_path)
    (tmp_path / "libc6_2.36_amd64.deb").write_bytes(b"what apt offered")
    dist.describe(out, "1.2.3", dist.read_checkout(), None)
    checked = subprocess.run(
        ["sha256sum", "--check", dist.CHECKSUMS], cwd=out, capture_output=True, check=True
    )
    names = {path.name for path in out.iterdir()}
    assert {line.partition(":")[0] for line in checked.stdout.decode().splitlines()} == names - {
        dist.CHECKSUMS
    }
    provenance = json.loads((out / dist.PROVENANCE).read_text())
    subjects = {subject["name"] for subject in provenance["subject"]}
    assert subjects == names - {dist.CHECKSUMS, dist.PROVENANCE}
    checkout, *locks, package = provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert checkout["digest"]["gitCommit"] == head.stdout.strip()
    assert {lock["name"] for lock in locks} == set(dist.LOCK_FILES)
    digest = sha256(b"what apt offered").hexdigest()
    assert package == {"name": "libc6_2.36_amd64.deb", "digest": {"sha256": digest}}


def test_the_provenance_has_the_stage_file_and_its_policy(out, tmp_path, monkeypatch):
    """By their names, because the same files elsewhere give the same artefacts."""
    monkeypatch.setattr(dist.container, "PACKAGES", tmp_path)
    stage, policy = tmp_path / "production.yaml", tmp_path / "prod" / "limits.yaml"
    policy.parent.mkdir()
    policy.write_text("version: 1\n")
    stage.write_text("flips: false\npolicy: prod/limits.yaml\n")
    dist.describe(out, "1.2.3", dist.read_checkout(), stage)
    definition = json.loads((out / dist.PROVENANCE).read_text())["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"command": "make dist", "stage": "production.yaml"}
    assert definition["resolvedDependencies"][-2:] == [
        {"name": name, "digest": {"sha256": sha256(path.read_bytes()).hexdigest()}}
        for name, path in (("production.yaml", stage), ("limits.yaml", policy))
    ]
    assert str(tmp_path) not in json.dumps(definition)


@pytest.mark.parametrize("is_changed", [False, True])
def test_the_provenance_has_whether_the_checkout_had_uncommitted_changes(tmp_path, monkeypatch, is_changed):
    """Its own scratch folder, in the checkout as by default, is none."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, checkout], check=True)
    if is_changed:
        (checkout / "README.md").write_text("changed")
    (checkout / ".gitignore").write_text("dist/\n")
    subprocess.run(["git", "update-index", "--assume-unchanged", ".gitignore"], cwd=checkout, check=True)
    monkeypatch.setattr(dist, "ROOT", checkout)
    for slow in ("check_tools", "build_packages", "build_template", "build_archives", "build_image"):
        monkeypatch.setattr(dist, slow, lambda *_: None)
    dist.build_all(checkout / "dist", None)
    provenance = json.loads((checkout / "dist" / dist.PROVENANCE).read_text())
    parameters = provenance["predicate"]["buildDefinition"]["internalParameters"]
    assert parameters["uncommittedChanges"] is is_changed


def test_the_bill_of_the_functions_lists_what_is_pinned_for_them():
    """One wheel of each, or one for each architecture, by a checksum of the lock file."""
    text = (ROOT / "infra" / "layer.txt").read_text()
    pinned = {
        (name.lower(), version): set(re.findall(r"sha256:(\w+)", hashes))
        for name, version, hashes in re.findall(r"(?ms)^([\w-]+)==(\S+)(.*?)(?=^\S|\Z)", text)
    }
    components = list(dist.layer_components())
    listed = [(component.name.lower().replace("_", "-"), component.version) for component in components]
    assert set(listed) == set(pinned)
    assert all(component.sha256 in pinned[key] for key, component in zip(listed, components, strict=True))
    wrapt = [component.purl for component in components if component.name == "wrapt"]
    assert {re.search("aarch64|x86_64", purl)[0] for purl in wrapt} == {"aarch64", "x86_64"}


def test_each_component_of_the_functions_has_all_that_a_bill_needs(out, tmp_path, monkeypatch):
    monkeypatch.setattr(dist.container, "PACKAGES", tmp_path)
    dist.describe(out, "1.2.3", dist.read_checkout(), None)
    components = json.loads((out / "burstwatch-1.2.3-functions.cdx.json").read_text())["components"]
    assert_bill_is_complete(components)


def test_a_folder_with_other_files_is_not_emptied(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(dist.DistError, match="has other files"):
        dist.build_all(tmp_path, None)
    assert (tmp_path / "thesis.tex").exists()


def test_a_step_that_fails_leaves_what_was_built_before(tmp_path, monkeypatch):
    def fail(_):
        raise dist.DistError("rpmbuild is missing")

    monkeypatch.setattr(dist, "check_tools", lambda: None)
    monkeypatch.setattr(dist, "build_wheel", fail)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / dist.CHECKSUMS).write_text("those of yesterday\n")
    with pytest.raises(dist.DistError, match="rpmbuild"):
        dist.build_all(tmp_path / "dist", None)
    assert [path.name for path in tmp_path.iterdir()] == ["dist"]
    assert (tmp_path / "dist" / dist.CHECKSUMS).read_text() == "those of yesterday\n"


def test_a_missing_tool_is_named_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dist.DistError, match="git, dpkg-deb, rpmbuild missing"):
        dist.build_all(tmp_path / "dist", None)
    assert list(tmp_path.iterdir()) == []


def test_the_whole_report_of_a_command_that_fails_is_printed(tmp_path):
    (tmp_path / "stage.yaml").write_text("flips: maybe\nschedule: perhaps\n")
    with pytest.raises(dist.DistError, match="failed:\n") as failure:
        dist.build_template(tmp_path / "out", tmp_path / "stage.yaml")
    assert "stage.yaml:1: flips: " in str(failure.value)
    assert "stage.yaml:2: schedule: " in str(failure.value)
    with pytest.raises(dist.DistError, match=r"(?s)git rev-parse nothing-like-it failed:.*unknown revision"):
        dist.run("git", "rev-parse", "nothing-like-it")


def test_a_wrong_stage_is_reported_without_warnings_about_node(tmp_path):
    command = [sys.executable, "-m", "infra.plain_files", tmp_path / "out", "--stage", tmp_path / "none.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: 1 fault in the configuration",
        f"  {tmp_path}/none.yaml: cannot be read: No such file or directory; give the path of the stage file",
    ]
