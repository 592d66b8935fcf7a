"""A fake Price List: GetProducts for EBS, with the formats, units and unrelated rows of the real one.

us-east-1 has AWS's list prices. Every other region is a tenth more expensive, which is made up, so that a
test notices if the region is ignored. It refuses everything that it does not know, so that no test passes by
accident.
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from burstlab.fake_aws.protocols import Call, Response
from burstlab.model.aws_error import AwsError
from burstwatch.core.ebs.pricing import US_EAST_1, VolumeType

PUBLISHED_AT: Final = "2026-10-28T21:07:43Z"
REGIONS: Final = {
    "us-east-1": ("", "US East (N. Virginia)"),
    "us-east-2": ("USE2-", "US East (Ohio)"),
    "us-west-2": ("USW2-", "US West (Oregon)"),
    "eu-west-1": ("EU-", "EU (Ireland)"),
    "eu-central-1": ("EUC1-", "EU (Frankfurt)"),
    "ap-northeast-1": ("APN1-", "Asia Pacific (Tokyo)"),
    "ap-south-1": ("APS3-", "Asia Pacific (Mumbai)"),
}
"""The regions on the list: what their usage types begin with, and how the list calls them."""

MAX_PAGE: Final = 100  # Source: Price List API reference, GetProducts
_ENDPOINT_REGIONS: Final = frozenset({"us-east-1", "eu-central-1", "ap-south-1"})
_OTHER_REGIONS_FACTOR: Final = 1.1  # made up; see above
_KNOWN_PARAMETERS: Final = frozenset({"ServiceCode", "Filters", "FormatVersion", "MaxResults", "NextToken"})
_VOLUME_TYPE_NAMES: Final = {"gp2": "General Purpose", "gp3": "General Purpose", "io1": "Provisioned IOPS"}
_OTHER_TYPES_USD: Final = {"st1": 0.045, "sc1": 0.015, "standard": 0.05}


class PriceListApi:
    """Serves the Price List.

    The usage types in ``excluded_usage_types`` are left out, as in regions without that type.
    """

    def __init__(self) -> None:
        self.excluded_usage_types: set[str] = set()

    def handles(self, call: Call) -> bool:
        return call.service == "pricing"

    def handle(self, call: Call) -> Response:
        if call.action != "GetProducts":
            raise AwsError(
                "UnknownOperationException", f"the lab does not know {call.action} of the Price List"
            )
        if call.region not in _ENDPOINT_REGIONS:
            raise AwsError("UnknownEndpoint", f"the Price List has no endpoint in {call.region}")
        request = json.loads(call.body or b"{}")
        if unknown := request.keys() - _KNOWN_PARAMETERS:
            raise _invalid_parameter(f"the lab does not know {sorted(unknown)} of GetProducts")
        if request.get("ServiceCode") != "AmazonEC2":
            raise AwsError("NotFoundException", f"the lab has no prices of {request.get('ServiceCode')}")
        products = [
            product
            for product in self._iter_products()
            if _matches_filters(product, request.get("Filters", ()))
        ]
        response = _page(products, request)
        return Response(body=json.dumps(response).encode(), content_type="application/x-amz-json-1.1")

    def _iter_products(self) -> Iterator[dict[str, Any]]:
        for region in REGIONS:
            for product in _region_products(region):
                if (
                    product["product"]["attributes"]["usagetype"].rpartition("EBS:")[2]
                    not in self.excluded_usage_types
                ):
                    yield product


def _region_products(region: str) -> Iterator[dict[str, Any]]:
    """The products of a region, including rows that a reader must ignore."""
    factor = 1.0 if region == US_EAST_1.region else _OTHER_REGIONS_FACTOR
    for volume_type, price in US_EAST_1.by_type.items():
        name = "piops" if volume_type is VolumeType.IO1 else str(volume_type)
        unit = "GB-month" if volume_type is VolumeType.IO2 else "GB-Mo"
        usage = f"VolumeUsage.{name}"
        yield _product(
            region, "Storage", usage, unit, price.usd_per_gib * factor, volumeApiName=str(volume_type)
        )
        yield _local_zone_product(region, usage, unit, price.usd_per_gib * 2, str(volume_type))
        for tier, (min_iops, usd) in enumerate(price.iops_tiers, start=1):
            suffix = "" if tier == 1 else f".tier{tier}"
            begin = str(min_iops) if volume_type is VolumeType.GP3 else "0"
            usage = f"VolumeP-IOPS.{name}{suffix}"
            yield _product(region, "System Operation", usage, "IOPS-Mo", usd * factor, begin=begin)
        if price.usd_per_mib_s:
            yield _product(
                region,
                "Provisioned Throughput",
                f"VolumeP-Throughput.{name}",
                "GiBps-mo",
                price.usd_per_mib_s * 1024 * factor,
            )
    for type_name, usd in _OTHER_TYPES_USD.items():
        usage = "VolumeUsage" if type_name == "standard" else f"VolumeUsage.{type_name}"
        yield _product(region, "Storage", usage, "GB-Mo", usd * factor, volumeApiName=type_name)
    yield _product(region, "System Operation", "VolumeIOUsage", "IOs", 0.00000005 * factor)
    yield _product(region, "Storage Snapshot", "SnapshotUsage", "GB-Mo", 0.05 * factor)


def _local_zone_product(region: str, usage: str, unit: str, usd: float, type_name: str) -> dict[str, Any]:
    """A row of a Local Zone, which AWS lists under its region."""
    product = _product(region, "Storage", usage, unit, usd, volumeApiName=type_name)
    attributes = product["product"]["attributes"]
    attributes["locationType"], attributes["location"] = "AWS Local Zone", "US East (Boston)"
    attributes["usagetype"] = f"USE1-BOS1-EBS:{usage}"
    return product


def _product(
    region: str, family: str, usage: str, unit: str, usd: float, *, begin: str = "0", **attributes: str
) -> dict[str, Any]:
    prefix, location = REGIONS[region]
    sku = hashlib.sha256(f"{region}{usage}{usd}".encode()).hexdigest()[:16].upper()
    term, dimension = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    type_name = attributes.get("volumeApiName")
    return {
        "product": {
            "productFamily": family,
            "attributes": {
                "servicecode": "AmazonEC2",
                "servicename": "Amazon Elastic Compute Cloud",
                "location": location,
                "locationType": "AWS Region",
                "regionCode": region,
                "usagetype": f"{prefix}EBS:{usage}",
                "operation": "",
                **(
                    {"volumeType": _VOLUME_TYPE_NAMES.get(type_name, "Provisioned IOPS")} if type_name else {}
                ),
                **attributes,
            },
            "sku": sku,
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                term: {
                    "priceDimensions": {
                        dimension: {
                            "unit": unit,
                            "beginRange": begin,
                            "endRange": "Inf",
                            "description": f"${usd:.6g} per {unit} of {usage} - {location}",
                            "appliesTo": [],
                            "rateCode": dimension,
                            "pricePerUnit": {"USD": f"{usd:.10f}"},
                        }
                    },
                    "sku": sku,
                    "effectiveDate": "2026-10-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20261028210743",
        "publicationDate": PUBLISHED_AT,
    }


def _matches_filters(product: Mapping[str, Any], filters: Sequence[Mapping[str, str]]) -> bool:
    attributes = {"productFamily": product["product"]["productFamily"], **product["product"]["attributes"]}
    for term in filters:
        if term.get("Type") != "TERM_MATCH":
            raise _invalid_parameter(f"the lab only knows filters of type TERM_MATCH, not {term.get('Type')}")
        if str(attributes.get(term["Field"], "")).lower() != term["Value"].lower():
            return False
    return True


def _page(products: Sequence[Mapping[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    max_results = int(request.get("MaxResults", MAX_PAGE))
    if not 1 <= max_results <= MAX_PAGE:
        raise _invalid_parameter(f"MaxResults must be between 1 and {MAX_PAGE}; it is {max_results}")
    first = _parse_token(request.get("NextToken"))
    response: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(product) for product in products[first : first + max_results]],
    }
    if first + max_results < len(products):
        response["NextToken"] = urlsafe_b64encode(str(first + max_results).encode()).decode()
    return response


def _parse_token(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(urlsafe_b64decode(token))
    except ValueError:
        raise AwsError("InvalidNextTokenException", "the token is not one of this endpoint's") from None


def _invalid_parameter(message: str) -> AwsError:
    return AwsError("InvalidParameterException", message)
