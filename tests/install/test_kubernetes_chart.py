"""The values of the Helm chart: what it accepts, and what its one safety switch needs."""

from datetime import timedelta

import pytest
import yaml

from burstctl.watch.command import watch
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.policy.policy import PolicyError
from support.install.artefacts import load_artefact_script

check = load_artefact_script("kubernetes/check")
DIGEST = f"sha256:{'0123456789abcdef' * 4}"

pytestmark = pytest.mark.skipif(
    not (check.TOOLS / "helm").exists(),
    reason="Helm is not there: run integrations/kubernetes/check.py --download",
)


def render(*settings):
    helm, _ = check.download_tools()
    return list(filter(None, yaml.safe_load_all(check.render(helm, settings))))


def find(documents, kind):
    return next(document for document in documents if document["kind"] == kind)


def container_of(documents):
    [container] = find(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def test_only_the_boolean_true_lets_it_modify_volumes():
    assert "--act" not in container_of(render())["args"]
    assert "--act" not in container_of(render("--set=act=false"))["args"]
    assert "--act" in container_of(render("--set=act=true"))["args"]


@pytest.mark.parametrize("value", ["false", "true", "no", ""])
def test_a_text_is_not_a_boolean_even_if_the_schema_is_skipped(value):
    for options in ([], ["--skip-schema-validation"]):
        with pytest.raises(SystemExit, match=r"act.*(want boolean|is not a boolean)"):
            render(f"--set-string=act={value}", *options)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("Act=true", "additional properties 'Act' not allowed"),
        ("image.tags=1", "additional properties 'tags' not allowed"),
        ("act=null", "missing property 'act'"),
        ("metrics.port=abc", "at '/metrics/port': got string, want integer"),
        ("metrics.port=0", "at '/metrics/port': minimum: got 0, want 1"),
        ("metrics.port=65536", "at '/metrics/port': maximum: got 65,536"),
        ("ledger=postgres:x", "at '/ledger': 'postgres:x' does not match"),
        ("ledger=sqlite:/tmp/x", "at '/ledger': 'sqlite:/tmp/x' does not match"),
        ("policy=null", "missing property 'policy'"),
        ("policy=observe", "at '/policy': got string, want object"),
        ("enabled=yes", "at '/enabled': got string, want null or boolean"),
        ("image.tag=0", "at '/image/tag': minimum: got 0, want 1"),
        ("image.tag=a b", "at '/image/tag': 'a b' does not match"),
        ("metrics=null", "missing property 'metrics'"),
        ("resources.request.cpu=1", "additional properties 'request' not allowed"),
        ("state.size=0", "at '/state/size': minimum: got 0, want 1"),
        ("state.size=0Gi", "at '/state/size': '0Gi' does not match"),
        ("state.size=0.0e3", "at '/state/size': '0.0e3' does not match"),
        ("state.size=-1Gi", "at '/state/size': '-1Gi' does not match"),
        ("state.size=1GB", "at '/state/size': '1GB' does not match"),
        ("state.storageClassName=GP 3", "at '/state/storageClassName': 'GP 3' does not match"),
        ("image.digest=deadbeef", "at '/image/digest': 'deadbeef' does not match"),
        ("image.repository=registry.example/burstwatch:1", "at '/image/repository'"),
        ("image.pullPolicy=always", "at '/image/pullPolicy': value must be one of"),
        ("region=no", "at '/region': 'no' does not match"),
        ("region=us_east_1", "at '/region': 'us_east_1' does not match"),
        ("podAnnotations.retries=3", "at '/podAnnotations/retries': got number, want string"),
        ("slackWebhookSecret=true", "at '/slackWebhookSecret': got boolean, want null or string"),
        ("extraArgs=--every", "at '/extraArgs': got string, want null or array"),
        ("extraArgs[0]=5", "at '/extraArgs/0': got number, want string"),
        ("extraArgs[0]=--act", "at '/extraArgs/0': 'not' failed"),
        ("extraArgs[0]=--metrics-port=80", "at '/extraArgs/0': 'not' failed"),
        ("extraArgs={--region,eu-west-1}", "at '/extraArgs/0': 'not' failed"),
        ("extraArgs[0]=--policy=other.yaml", "at '/extraArgs/0': 'not' failed"),
        ("extraEnv[0].value=x", "missing property 'name'"),
        ("extraEnv[0].name=BURSTWATCH_LEDGER", "at '/extraEnv/0/name': 'not' failed"),
        ("extraEnv[0].name=TZ,extraEnv[0].value=1", "at '/extraEnv/0/value': got number, want string"),
    ],
)
def test_a_wrong_value_is_rejected_by_its_name(setting, expected):
    with pytest.raises(SystemExit, match="meet the specifications of the schema") as rejected:
        render(f"--set={setting}")
    assert expected in str(rejected.value)


@pytest.mark.parametrize(
    "settings",
    [
        [f"--set=image.digest={DIGEST}", "--set=image.repository=registry.example:5000/tools/burst-watch"],
        ["--set=region=us-gov-west-1"],
        ["--set=region=us-isob-east-1"],
        ["--set=resources.limits=null", "--set=resources.requests.cpu=1"],
        ["--set=state.size=1.5Gi", "--set=state.storageClassName=gp3.encrypted"],
        ["--set=policy.mode.highest=propose", "--set=metrics.port=80"],
        ["--set=global.registry=registry.example", "--set=enabled=true"],
        ["--set=resources.claims[0].name=device"],
    ],
)
def test_other_values_are_accepted(settings):
    assert render(*settings)


OPTIONAL = (
    "imagePullSecrets",
    "ledger",
    "slackWebhookSecret",
    "extraArgs",
    "extraEnv",
    "serviceAccount",
    "resources",
    "podAnnotations",
    "nodeSelector",
    "tolerations",
    "global",
    "enabled",
)


@pytest.mark.parametrize(
    "settings",
    [
        [f"--set={name}=null" for name in OPTIONAL],
        [f"--set-json={name}=null" for name in OPTIONAL],
        [
            "--set=ledger=dynamodb:burstwatch-ledger",
            *("--set=state=null", "--set=image.tag=null", "--set=image.digest=null"),
            *("--set=resources.limits=null", "--set=serviceAccount.annotations=null"),
        ],
    ],
)
def test_what_is_optional_may_be_null_and_kubernetes_takes_the_result(settings):
    """As values of an umbrella chart often are."""
    helm, schemas = check.download_tools()
    rendered = check.render(helm, settings)
    assert list(check.find_faults(rendered, schemas, check.KUBERNETES_VERSIONS[-1])) == []


def test_a_file_for_the_ledger_needs_a_size():
    with pytest.raises(SystemExit, match=r"state\.size is empty"):
        render("--set=state=null")


@pytest.mark.parametrize("option", ["--set", "--set-json", "--set-string"])
@pytest.mark.parametrize("number", ["7", "20261120", "1073741824", "20261120153000"])
def test_a_number_has_all_its_digits(option, number):
    """Helm reads a number of a file of values as a float."""
    documents = render(*(f"{option}={name}={number}" for name in ("image.tag", "state.size")))
    assert container_of(documents)["image"].endswith(f":{number}")
    claim = find(documents, "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == number


@pytest.mark.parametrize(
    "size", ["0.5Gi", ".5Gi", "1.5Ti", "+1Gi", "2e9", "1.5E+9", "128974848000m", "1Pi", "1E"]
)
def test_a_size_is_any_quantity_of_kubernetes(size):
    claim = find(render(f"--set-string=state.size={size}"), "PersistentVolumeClaim")
    assert claim["spec"]["resources"]["requests"]["storage"] == size


def test_texts_stay_texts_even_if_the_schema_is_skipped():
    documents = render("--skip-schema-validation", "--set=region=no", "--set-string=image.repository=no")
    container = container_of(documents)
    assert {"name": "AWS_REGION", "value": "no"} in container["env"]
    assert container["image"].startswith("no:")


def test_ledger_and_policy_are_variables_so_that_commands_in_the_container_use_them():
    for settings, ledger in (
        ([], "sqlite:/state/ledger.sqlite"),
        (["--set=ledger=dynamodb:burstwatch-ledger"], "dynamodb:burstwatch-ledger"),
    ):
        container = container_of(render(*settings))
        variables = {entry["name"]: entry["value"] for entry in container["env"]}
        assert variables["BURSTWATCH_LEDGER"] == ledger
        [folder] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "policy"]
        assert variables["BURSTWATCH_POLICY"] == f"{folder}/policy.yaml"
        assert not [item for item in container["args"] if item.startswith(("--ledger", "--policy"))]


def test_extra_arguments_are_the_last_ones_and_remain_text():
    settings = ["--set=extraArgs={--ledger,sqlite:/state/ledger.sqlite}", "--set-string=extraArgs[2]=no"]
    usual = container_of(render())["args"]
    assert container_of(render(*settings))["args"] == [
        *usual,
        "--ledger",
        "sqlite:/state/ledger.sqlite",
        "no",
    ]


def test_extra_arguments_are_options_of_watch():
    """The examples of the values and of docs/container.md."""
    arguments = container_of(render("--set=extraArgs={--every,5m,--ledger,sqlite:/state/ledger.sqlite}"))[
        "args"
    ]
    context = watch.make_context(arguments[0], arguments[1:])
    assert context.params["every"] == timedelta(minutes=5)


def test_extra_arguments_cannot_let_it_modify_volumes_even_if_the_schema_is_skipped():
    with pytest.raises(SystemExit, match="extraArgs has --act: give --set act=true"):
        render("--set=extraArgs={--act}", "--skip-schema-validation")


@pytest.mark.parametrize("arguments", ["{--ledger,sqlite:/other}", "{--ledger=sqlite:/other}", "{--ledger}"])
def test_a_watch_has_the_ledger_in_which_a_hold_is_placed(arguments):
    """The command in the pod reads the ledger from the variable."""
    with pytest.raises(SystemExit, match=r"extraArgs has the ledger .*, but the value ledger is"):
        render(f"--set=extraArgs={arguments}")
    same = container_of(render("--set=ledger=dynamodb:other", "--set=extraArgs={--ledger=dynamodb:other}"))
    assert {"name": "BURSTWATCH_LEDGER", "value": "dynamodb:other"} in same["env"]


def test_extra_variables_are_added_as_kubernetes_has_them():
    usual = container_of(render())["env"]
    settings = ("--set=extraEnv[0].name=TZ,extraEnv[0].value=UTC", "--set=extraEnv[1].name=NODE")
    source = "--set=extraEnv[1].valueFrom.fieldRef.fieldPath=spec.nodeName"
    assert container_of(render(*settings, source))["env"] == [
        *usual,
        {"name": "TZ", "value": "UTC"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]


def test_the_keys_of_the_policy_are_checked_by_the_program(tmp_path):
    for setting, is_valid in (("mode.highest=propose", True), ("mode.defualt=propose", False)):
        path = tmp_path / "policy.yaml"
        path.write_text(find(render(f"--set=policy.{setting}"), "ConfigMap")["data"]["policy.yaml"])
        if is_valid:
            read_policy(path)
        else:
            with pytest.raises(PolicyError, match="defualt"):
                read_policy(path)
