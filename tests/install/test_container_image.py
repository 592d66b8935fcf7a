"""The container image: built without Docker, and run as a container runtime would, before the lab."""

import gzip
import hashlib
import json
import signal
import subprocess
import sys
import tomllib
import urllib.request

import pytest
import yaml

from burstctl.watch.command import watch
from support.install.artefacts import assert_bill_is_complete, load_artefact_script
from support.install.container_image import VOLUME, bench, build
from support.paths import ROOT
from support.waiting import wait_until

WATCHED = f'burstwatch_volume_level{{level="critical",reason="",region="us-east-1",volume_id="{VOLUME}"}} 1'
check = load_artefact_script("kubernetes/check")


def read_blob(image, descriptor) -> bytes:
    data = (image / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (
        descriptor["size"],
        descriptor["digest"].removeprefix("sha256:"),
    )
    return data


def test_every_blob_is_the_one_that_is_named(image):
    assert json.loads((image / "oci-layout").read_bytes()) == {"imageLayoutVersion": "1.0.0"}
    [descriptor] = json.loads((image / "index.json").read_bytes())["manifests"]
    manifest = json.loads(read_blob(image, descriptor))
    configuration = json.loads(read_blob(image, manifest["config"]))
    layers = [gzip.decompress(read_blob(image, layer)) for layer in manifest["layers"]]
    assert [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers] == configuration["rootfs"][
        "diff_ids"
    ]
    assert len(list((image / "blobs" / "sha256").iterdir())) == len(layers) + 2
    assert configuration["config"]["User"] == "65532:65532"


def test_a_layer_is_the_same_bytes_whatever_the_order_of_its_files():
    files = {"b/file": build.Entry(mode=0o644, data=b"1"), "a": build.Entry(mode=0o777, target="b/file")}
    archive = build.layer_archive(files)
    assert archive == build.layer_archive(dict(reversed(files.items())))


def test_a_compiled_file_is_the_same_bytes_whatever_the_process_has_in_memory():
    source = b"def unusual_name(argument):\n    return {'unusual_text', 'another'}, 'unusual_text', 1.5\n"
    programs = [
        "",
        "import argparse, json; keep = [sys.intern('unusual_text'), sys.intern('unusual_name')]\n",
    ]
    compiled = set()
    for program in programs:
        script = (
            f"import sys; sys.path.insert(0, {str(ROOT / 'integrations')!r})\n{program}"
            "from container import build\n"
            f"layer = {{'a.py': build.Entry(mode=0o644, data={source!r})}}\n"
            "build.compile_sources(layer)\n"
            "[data] = [entry.data for name, entry in layer.items() if name.endswith('.pyc')]\n"
            "sys.stdout.buffer.write(data)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        compiled.add(done.stdout)
    assert len(compiled) == 1


def test_the_bill_lists_every_package_with_its_checksum_and_license(image):
    [bill_file] = image.parent.glob("*.cdx.json")
    components = json.loads(bill_file.read_text())["components"]
    names = {component["name"] for component in components}
    assert set(build.DEBIAN_PACKAGES) | {"burstwatch", "boto3", "prometheus_client"} <= names
    assert_bill_is_complete(components)


def wait_for_address(process) -> str:
    for line in process.stdout:
        if line.startswith("metrics: "):
            return line.split()[1]
    raise AssertionError("it ended without an address")


def test_it_watches_with_a_read_only_root_serves_metrics_and_stops_on_sigterm(image, root, state, image_lab):
    variables = [f"{name}={value}" for name, value in image_lab.environment.items()]
    process = subprocess.Popen(
        bench.watch_command(image, root, state, variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        url = wait_for_address(process)
        wait_until(lambda: WATCHED in urllib.request.urlopen(url, timeout=10).read().decode(), within_s=60)
        port = url.rpartition(":")[2].partition("/")[0]
        health_check = bench.read_configuration(image)["Healthcheck"]["Test"][1:]
        healthy = bench.enter(root, state, [f"METRICS_PORT={port}"], *health_check)
        assert subprocess.run(healthy, check=False).returncode == 0
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 3, output
    assert (state / "ledger.sqlite").stat().st_uid == build.USER_ID
    assert subprocess.run(healthy, capture_output=True, check=False).returncode != 0


def test_a_hold_in_its_container_stops_a_watch_that_acts_until_it_is_released(image, root, state, image_lab):
    [container] = find("Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry["value"] for entry in container["env"]} | image_lab.environment
    policy = root / variables["BURSTWATCH_POLICY"].removeprefix("/")
    policy.parent.mkdir(parents=True)
    policy.write_text(find("ConfigMap")["data"]["policy.yaml"])

    def enter(*arguments):
        """As kubectl exec and docker exec do: in the container, with its variables."""
        environment = [
            *bench.read_configuration(image)["Env"],
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        return bench.enter(root, state, environment, "burstctl", *arguments)

    def next_pass(process):
        image_lab.fleet.clock.advance(60)
        [volume] = json.loads(process.stdout.readline())["volumes"]
        return volume["outcome"]

    arguments = [argument for argument in container["args"] if not argument.startswith("--metrics")]
    with subprocess.Popen(enter(*arguments, "--act", "--json"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert next_pass(process)["action"] == "proposed"
            hold = enter("hold", "--all", "--for", "6h", "--reason", "INC-42")
            held = subprocess.run(hold, capture_output=True, text=True, check=False)
            assert held.returncode == 0, held.stderr
            assert "INC-42" in held.stdout
            image_lab.fleet.set_tags(VOLUME, {"burstwatch:mode": "auto"})
            assert [next_pass(process)["refusal"] for _ in range(2)] == ["held"] * 2
            assert "ModifyVolume" not in image_lab.faults.call_counts()
            subprocess.run(enter("release", "--all"), capture_output=True, check=True)
            assert next_pass(process)["action"] == "flipped"
        finally:
            process.terminate()


def test_nothing_but_the_state_can_be_written(root, state):
    script = (
        "import os\n"
        "open('/state/file', 'w').close()\n"
        "for path in ('/tmp/file', '/usr/lib/python3/dist-packages/file'):\n"
        "    try: os.open(path, os.O_CREAT | os.O_WRONLY)\n"
        "    except OSError as error: print(error.strerror)\n"
        "print(os.getuid(), os.getgid())"
    )
    command = bench.enter(root, state, [], "/usr/bin/python3.11", "-c", script)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["Read-only file system"] * 2 + ["65532 65532"]


# ------------------------------------------------------------------------------------------------- Kubernetes


def find(kind):
    documents = yaml.safe_load_all((ROOT / "integrations/kubernetes/burstwatch.yaml").read_text())
    return next(document for document in documents if document and document["kind"] == kind)


def test_the_manifest_runs_the_image_as_it_is_built():
    [container] = (pod := find("Deployment")["spec"]["template"]["spec"])["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (build.USER_ID,) * 2
    assert container["ports"][0]["containerPort"] == build.PORT
    assert build.STATE in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert container["image"].rpartition(":")[2] == project_version()


def test_the_manifest_gives_options_that_watch_has():
    [container] = find("Deployment")["spec"]["template"]["spec"]["containers"]
    name, *arguments = container["args"]
    assert name == watch.name
    watch.make_context(name, arguments, resilient_parsing=True, help_option_names=["-h", "--help"])


def test_the_chart_has_the_version_of_the_project():
    chart = yaml.safe_load((ROOT / "integrations/kubernetes/chart/Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project_version()


def project_version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_helm_and_the_schemas_of_kubernetes_accept_the_chart(capsys, monkeypatch):
    if not (check.TOOLS / "helm").exists():
        pytest.skip("Helm is not there: run integrations/kubernetes/check.py --download")
    monkeypatch.setattr("sys.argv", ["check.py"])
    assert check.main() == 0, capsys.readouterr().out


def test_helm_names_the_value_that_is_missing():
    if not (check.TOOLS / "helm").exists():
        pytest.skip("Helm is not there: run integrations/kubernetes/check.py --download")
    helm, _ = check.download_tools()
    with pytest.raises(SystemExit, match="region is empty: give an AWS Region"):
        check.run_helm(helm, "template", *check.RELEASE, check.PLACEHOLDERS[0])
    with pytest.raises(SystemExit, match=r"image\.repository is empty: give the repository"):
        check.run_helm(helm, "template", *check.RELEASE, check.PLACEHOLDERS[1])


def test_the_image_has_the_pinned_versions_of_burstctl():
    def pins(path):
        return {line.split()[0] for line in (ROOT / path).read_text().splitlines() if "==" in line}

    image_pins = pins("integrations/container/requirements.txt")
    assert image_pins
    assert image_pins <= pins("requirements.txt")
