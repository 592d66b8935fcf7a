"""AWS: metrics and events as signed requests."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from typing import Any, Final

from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.text import json_text, sanitise
from ddprobe_source.outputs.http_client import HttpClient, host_header, split_url

EVENT_SCHEMA: Final = "burstwatch.probe/v1"
METADATA: Final = "http://169.254.169.254"
MAX_EVENT_BYTES: Final = 4096


class Caller(Record):
    """Who signs, and where."""

    region: str
    instance_id: str
    key_id: str
    secret: str
    token: str
    expires: str


def query_metadata(http: HttpClient) -> Caller:
    """Fetch region, instance and the role's credentials over IMDSv2."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", METADATA).rstrip("/")
    ttl = {"x-aws-ec2-metadata-token-ttl-seconds": "300"}
    status, token = http.request("PUT", f"{base}/latest/api/token", ttl, within_s=1.0)
    if status != 200:  # noqa: PLR2004 - HTTP
        raise OSError(errno.EPROTO, f"instance metadata answered {status} to the request for a token")
    header = {"x-aws-ec2-metadata-token": token.decode()}

    def get(path: str) -> str:
        status, body = http.request("GET", f"{base}/latest/{path}", header, within_s=1.0)
        if status != 200:  # noqa: PLR2004 - HTTP
            raise OSError(
                errno.EPROTO, f"instance metadata answered {status} to {path}: is there an instance role?"
            )
        return body.decode()

    roles = get("meta-data/iam/security-credentials/").split()
    if not roles:
        raise OSError(errno.EPROTO, "instance metadata names no role: attach an instance profile")
    credentials = http.json.loads(get(f"meta-data/iam/security-credentials/{roles[0]}"))
    return Caller(
        region=get("meta-data/placement/region").strip(),
        instance_id=get("meta-data/instance-id").strip(),
        key_id=credentials["AccessKeyId"],
        secret=credentials["SecretAccessKey"],
        token=credentials["Token"],
        expires=credentials["Expiration"],
    )


class Request(Record):
    """One call of an AWS API, not yet signed."""

    service: str
    content_type: str
    target: str | None
    body: bytes


def sign(http: HttpClient, caller: Caller, request: Request, url: str, at_s: float) -> dict[str, str]:
    """Make the headers of a signed request: Signature Version 4 of a POST to ``/``."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    headers = {"content-type": request.content_type, "host": host_header(url), "x-amz-date": moment}
    if caller.token:
        headers["x-amz-security-token"] = caller.token
    if request.target:
        headers["x-amz-target"] = request.target
    names = ";".join(sorted(headers))
    sha256 = http.hashlib.sha256
    path = split_url(url)[3]
    canonical = ["POST", path, "", *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names]
    canonical.append(sha256(request.body).hexdigest())
    scope = f"{moment[:8]}/{caller.region}/{request.service}/aws4_request"
    digest = sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{caller.secret}".encode()
    for part in scope.split("/"):
        key = http.hmac.new(key, part.encode(), "sha256").digest()
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    signature = http.hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={caller.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def endpoint(service: str, region: str) -> str:
    """Address of a service, from the variables that every AWS tool honours, or from its region."""
    variable = {"monitoring": "CLOUDWATCH", "events": "EVENTBRIDGE"}[service]
    named = os.environ.get(f"AWS_ENDPOINT_URL_{variable}") or os.environ.get("AWS_ENDPOINT_URL")
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return (named or f"https://{service}.{region}.{suffix}").rstrip("/") + "/"


def quote(text: str) -> str:
    """Percent-encode for a form, as AWS wants it."""
    safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
    return "".join(chr(byte) if chr(byte) in safe else f"%{byte:02X}" for byte in text.encode())


def metric_values(reading: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Two metrics for a volume, no more: each costs by the month."""
    values = {"BlockedTasks": (float((reading["dstate"] or {}).get("most", 0)), "Count")}
    if reading["dd_s"] is not None:
        values["SyncWriteTime"] = (float(reading["dd_s"]), "Seconds")
    return values


def put_metric_data(readings: Sequence[dict[str, Any]], namespace: str) -> Request:
    """Form of a PutMetricData with every reading that knows its volume."""
    form = {"Action": "PutMetricData", "Version": "2010-08-01", "Namespace": namespace}
    number = 0
    for reading in readings:
        for name, (value, unit) in metric_values(reading).items():
            number += 1
            member = f"MetricData.member.{number}"
            form[f"{member}.MetricName"], form[f"{member}.Unit"] = name, unit
            form[f"{member}.Value"], form[f"{member}.Timestamp"] = f"{value:.9g}", reading["time"]
            form[f"{member}.Dimensions.member.1.Name"] = "VolumeId"
            form[f"{member}.Dimensions.member.1.Value"] = reading["volume_id"]
    body = "&".join(f"{quote(name)}={quote(value)}" for name, value in form.items()).encode()
    kind = "application/x-www-form-urlencoded; charset=utf-8"
    return Request(service="monitoring", content_type=kind, target=None, body=body)


def emf_line(reading: dict[str, Any], namespace: str) -> str:
    """Write a reading as an embedded-metric-format event for the CloudWatch agent."""
    values = metric_values(reading)
    described = [{"Name": name, "Unit": unit} for name, (_, unit) in values.items()]
    directive = {"Namespace": namespace, "Dimensions": [["VolumeId"]], "Metrics": described}
    now_ms = int(time.time() * 1000)
    event = {
        "_aws": {"Timestamp": now_ms, "LogGroupName": "ddprobe", "CloudWatchMetrics": [directive]},
        "VolumeId": reading["volume_id"],
        "Verdict": reading["verdict"],
        "Cause": reading["cause"],
    }
    return json_text(event | {name: value for name, (value, _) in values.items()}) + "\n"


def event_detail(reading: dict[str, Any], instance_id: str) -> str:
    """Write a stall as evidence for the watchdog: at most 4 KB, the least frequent tasks left out first."""
    groups = (reading["dstate"] or {}).get("top", [])
    top = [{key: group[key] for key in ("comm", "wchan", "count")} for group in groups]
    # total_s is of the write that was made; null when we only watched
    fields = ("volume_id", "verdict", "cause", "total_s", "started_at")
    stall = {"schema": EVENT_SCHEMA, "instance_id": instance_id} | {name: reading[name] for name in fields}
    while len(detail := json_text(stall | {"top": top})) > MAX_EVENT_BYTES and top:
        top.pop()
    return detail


def put_events(readings: Sequence[dict[str, Any]], bus: str, instance_id: str) -> Request:
    """Body of a PutEvents onto the watchdog's bus."""
    entries = [
        {
            "Source": "burstwatch.ddprobe",
            "DetailType": "stall",
            "EventBusName": bus,
            "Detail": event_detail(reading, reading["instance_id"] or instance_id),
        }
        for reading in readings
    ]
    kind, body = "application/x-amz-json-1.1", json_text({"Entries": entries}).encode()
    return Request(service="events", content_type=kind, target="AWSEvents.PutEvents", body=body)


def call_aws(http: HttpClient, caller: Caller, request: Request) -> None:
    """Sign and send; raises OSError with what AWS said when it does not take it."""
    url = endpoint(request.service, caller.region)
    status, answer = http.request("POST", url, sign(http, caller, request, url, time.time()), request.body)
    is_ok = status == 200  # noqa: PLR2004 - HTTP
    is_refused = request.service == "events" and is_ok and http.json.loads(answer).get("FailedEntryCount")
    if not is_ok or is_refused:
        raise OSError(errno.EPROTO, f"{request.service} answered {status}: {sanitise(answer, 300)}")
