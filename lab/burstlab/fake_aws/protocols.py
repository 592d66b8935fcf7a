"""AWS's protocols: parses calls, and serialises responses and errors."""

import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from burstlab.model.aws_error import AwsError, iso

EC2_NAMESPACE: Final = "http://ec2.amazonaws.com/doc/2016-11-15/"
_EFS_PATH: Final = "/2015-02-01/file-systems"
CLOUDWATCH_NAMESPACE: Final = "http://monitoring.amazonaws.com/doc/2010-08-01/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request; ``protocol`` is ec2, query, json, cbor or rest-json, ``service`` the signing name.

    The body of a rest-json call has all parameters, wherever they were in the request.
    """

    service: str
    region: str
    action: str
    protocol: str
    body: bytes
    access_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response before it is sent."""

    body: bytes
    content_type: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def read_call(environ: Mapping[str, Any], body: bytes) -> Call:
    """Read service, region, action and protocol from a signed request; unknown parts are empty."""
    service, region = _credential_scope(environ.get("HTTP_AUTHORIZATION", ""))
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    path = environ.get("PATH_INFO", "")
    if environ.get("HTTP_SMITHY_PROTOCOL") == "rpc-v2-cbor":
        return Call(
            service=service, region=region, action=path.rsplit("/", 1)[-1], protocol="cbor", body=body
        )
    if target:
        action = target.rsplit(".", 1)[-1]
        return Call(service=service, region=region, action=action, protocol="json", body=body)
    if service == "elasticfilesystem":
        return _read_efs_call(environ, region, body)
    protocol = "ec2" if service == "ec2" else "query"
    access_key, action = _access_key(environ.get("HTTP_AUTHORIZATION", "")), ""
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        action = _form_action(body)
    return Call(
        service=service, region=region, action=action, protocol=protocol, body=body, access_key=access_key
    )


def _read_efs_call(environ: Mapping[str, Any], region: str, body: bytes) -> Call:
    """A call of EFS: its action is in the method and the path."""
    method, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
    parameters = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    file_system_id = path.removeprefix(_EFS_PATH).strip("/")
    action = ""
    if path.startswith(_EFS_PATH):
        action = {("GET", False): "DescribeFileSystems", ("PUT", True): "UpdateFileSystem"}.get(
            (method, bool(file_system_id)), ""
        )
    if action == "UpdateFileSystem":
        parameters = {**json.loads(body or b"{}"), "FileSystemId": file_system_id}
    return Call(
        service="elasticfilesystem",
        region=region,
        action=action,
        protocol="rest-json",
        body=json.dumps(parameters).encode(),
    )


def parse_form(body: bytes) -> dict[str, str]:
    """The parameters of a call in the ec2 or query protocol."""
    return dict(parse_qsl(body.decode(), keep_blank_values=True))


def to_nested(parameters: Mapping[str, str]) -> Any:
    """Turn ``A.member.1.B=x`` into ``{"A": [{"B": "x"}]}``; RDS has other names than ``member``."""
    tree: dict[str, Any] = {}
    for name, value in parameters.items():
        node = tree
        *parents, leaf = name.split(".")
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = value
    return _to_lists(tree)


def read_cbor(body: bytes) -> Any:
    """Decode a CBOR body as botocore does; timestamps become aware datetimes."""
    from botocore.parsers import RpcV2CBORParser  # noqa: PLC0415 - heavy, and CBOR is the rarer protocol

    parser = RpcV2CBORParser()
    return parser.parse_data_item(parser.get_peekable_stream_from_bytes(body))


class Timestamp(int):
    """An instant in seconds since the epoch, to be written as a timestamp."""


class Timestamps(list[int]):
    """Instants in seconds since the epoch, to be written as timestamps."""


def encode_cbor(value: Any) -> bytes:  # noqa: PLR0911 - one line for each kind of value
    """Encode a response in CBOR: mappings, lists, text, numbers, booleans, Timestamp, Timestamps."""
    if isinstance(value, str):
        data = value.encode()
        return _cbor_head(0x60, len(data)) + data
    if isinstance(value, Timestamps):
        return _cbor_head(0x80, len(value)) + b"".join(_TIMESTAMP.pack(0xC1, 0x1A, at_s) for at_s in value)
    if isinstance(value, Timestamp):
        return _TIMESTAMP.pack(0xC1, 0x1A, value)
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, float):
        return _DOUBLE.pack(0xFB, value)
    if isinstance(value, int):
        return _cbor_head(0x00, value) if value >= 0 else _cbor_head(0x20, -1 - value)
    if isinstance(value, Mapping):
        return _cbor_head(0xA0, len(value)) + b"".join(
            encode_cbor(key) + encode_cbor(element) for key, element in value.items()
        )
    return _cbor_head(0x80, len(value)) + b"".join(map(encode_cbor, value))


def render_xml(value: Any, item: str) -> str:
    """Render nested mappings and lists as elements; lists become ``item`` elements."""
    if isinstance(value, Mapping):
        return "".join(
            f"<{name}>{render_xml(element, item)}</{name}>"
            for name, element in value.items()
            if element is not None
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "".join(f"<{item}>{render_xml(element, item)}</{item}>" for element in value)
    return escape(str(value))


def ec2_response(action: str, elements: str) -> Response:
    """A successful answer in the ec2 protocol around rendered elements."""
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{EC2_NAMESPACE}">'
        f"<requestId>{uuid.uuid4()}</requestId>{elements}</{action}Response>"
    )
    return Response(body=text.encode(), content_type="text/xml;charset=UTF-8")


def cloudwatch_response(call: Call, result: Mapping[str, Any]) -> Response:
    """A successful CloudWatch answer in the protocol the call came in."""
    if call.protocol == "cbor":
        return Response(body=encode_cbor(result), content_type="application/cbor", headers=_CBOR_HEADERS)
    if call.protocol == "json":
        body = json.dumps(result, separators=(",", ":")).encode()
        return Response(body=body, content_type="application/x-amz-json-1.0")
    text = (
        f'<{call.action}Response xmlns="{CLOUDWATCH_NAMESPACE}"><{call.action}Result>'
        f"{render_xml(_with_iso_timestamps(result), 'member')}</{call.action}Result>"
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{call.action}Response>"
    )
    return Response(body=text.encode(), content_type="text/xml")


def error_response(call: Call, error: AwsError) -> Response:
    """The error in the shape of the call's protocol."""
    if call.protocol in ("json", "cbor"):
        sender = "Sender" if error.status < 500 else "Receiver"  # noqa: PLR2004 - HTTP's own border
        headers = {"x-amzn-query-error": f"{error.code};{sender}"} if call.service == "monitoring" else {}
        document = {"__type": f"com.amazonaws.{call.service}#{error.code}", "message": error.message}
        if call.protocol == "cbor":
            return Response(
                body=encode_cbor(document),
                content_type="application/cbor",
                status=error.status,
                headers={**headers, **_CBOR_HEADERS},
            )
        return Response(
            body=json.dumps(document).encode(),
            content_type="application/x-amz-json-1.0",
            status=error.status,
            headers=headers,
        )
    if call.protocol == "rest-json":
        return Response(
            body=json.dumps({"ErrorCode": error.code, "Message": error.message}).encode(),
            content_type="application/json",
            status=error.status,
            headers={"x-amzn-ErrorType": error.code},
        )
    code, message = escape(error.code), escape(error.message)
    if call.protocol == "ec2":
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
            f"<Code>{code}</Code><Message>{message}</Message></Error></Errors>"
            f"<RequestID>{uuid.uuid4()}</RequestID></Response>"
        )
    else:
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
            f"<RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
        )
    # a client that expects JSON, whose protocol is not known here, reads at least the code
    headers = {"x-amzn-ErrorType": error.code}
    return Response(body=text.encode(), content_type="text/xml", status=error.status, headers=headers)


_TIMESTAMP: Final = struct.Struct(">BBI")
_DOUBLE: Final = struct.Struct(">Bd")
_CBOR_HEADERS: Final = {"smithy-protocol": "rpc-v2-cbor"}


def _cbor_head(major: int, number: int) -> bytes:
    for limit, additional_info, code in (
        (24, 0, ""),
        (2**8, 24, ">B"),
        (2**16, 25, ">H"),
        (2**32, 26, ">I"),
        (2**64, 27, ">Q"),
    ):
        if number < limit:
            return bytes([major | (additional_info or number)]) + (struct.pack(code, number) if code else b"")
    raise ValueError(f"{number} does not fit into CBOR's 64 bits")


def _credential_scope(authorization: str) -> tuple[str, str]:
    """Signing name and region of a version 4 signature."""
    _, _, rest = authorization.partition("Credential=")
    parts = rest.split(",")[0].split("/")
    return (parts[3], parts[2]) if len(parts) == 5 else ("", "")  # noqa: PLR2004 - key/day/region/service/type


def _access_key(authorization: str) -> str:
    """Whose signature it is."""
    return authorization.partition("Credential=")[2].partition("/")[0]


def _form_action(body: bytes) -> str:
    for part in body.split(b"&"):
        if part.startswith(b"Action="):
            return part[len(b"Action=") :].decode()
    return ""


def _to_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        [members] = node.values()
        if isinstance(members, dict) and all(map(str.isdigit, members)):
            return [_to_lists(child) for _, child in sorted(members.items(), key=_member_number)]
    return {name: _to_lists(child) for name, child in node.items()}


def _member_number(entry: tuple[str, Any]) -> int:
    return int(entry[0])


def _with_iso_timestamps(value: Any) -> Any:
    """Timestamps as the query protocol writes them."""
    if isinstance(value, Timestamp):
        return iso(datetime.fromtimestamp(value, tz=UTC))
    if isinstance(value, Timestamps):
        return [iso(datetime.fromtimestamp(at_s, tz=UTC)) for at_s in value]
    if isinstance(value, Mapping):
        return {name: _with_iso_timestamps(element) for name, element in value.items()}
    return [_with_iso_timestamps(element) for element in value] if isinstance(value, list) else value
