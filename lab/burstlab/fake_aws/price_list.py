"""AWS's Price List in a box: GetProducts for EBS, with the shapes, units and stray rows of the real one.

us-east-1 costs what AWS's list says; every other region a tenth more, which is made up, so that it shows
whether somebody minds the region. It refuses what it does not know, so that nothing passes by accident.
"""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from burstlab.fake_aws.protocols import Answer, Call
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

MOST_PAGE: Final = 100
_ENDPOINTS: Final = frozenset({"us-east-1", "eu-central-1", "ap-south-1"})
_ELSEWHERE: Final = 1.1
_KNOWN: Final = frozenset({"ServiceCode", "Filters", "FormatVersion", "MaxResults", "NextToken"})
_MEDIA: Final = {"gp2": "General Purpose", "gp3": "General Purpose", "io1": "Provisioned IOPS"}
_OTHERS: Final = {"st1": 0.045, "sc1": 0.015, "standard": 0.05}


class PriceListApi:
    """Answers for the Price List; usage types ``withheld`` are left out, as where a type is not sold."""

    def __init__(self) -> None:
        self.withheld: set[str] = set()

    def answers(self, call: Call) -> bool:
        return call.service == "pricing"

    def answer(self, call: Call) -> Answer:
        if call.action != "GetProducts":
            raise AwsError(
                "UnknownOperationException", f"the lab does not know {call.action} of the Price List"
            )
        if call.region not in _ENDPOINTS:
            raise AwsError("UnknownEndpoint", f"the Price List has no endpoint in {call.region}")
        asked = json.loads(call.body or b"{}")
        if unknown := asked.keys() - _KNOWN:
            raise _invalid(f"the lab does not know {sorted(unknown)} of GetProducts")
        if asked.get("ServiceCode") != "AmazonEC2":
            raise AwsError("NotFoundException", f"the lab has no prices of {asked.get('ServiceCode')}")
        products = [each for each in self._products() if _passes(each, asked.get("Filters", ()))]
        told = _page(products, asked)
        return Answer(body=json.dumps(told).encode(), content_type="application/x-amz-json-1.1")

    def _products(self) -> Iterator[dict[str, Any]]:
        for region in REGIONS:
            for product in _products_of(region):
                if product["product"]["attributes"]["usagetype"].rpartition("EBS:")[2] not in self.withheld:
                    yield product


def _products_of(region: str) -> Iterator[dict[str, Any]]:
    """What stands on the list for a region, among it what a reader has to leave aside."""
    factor = 1.0 if region == US_EAST_1.region else _ELSEWHERE
    for kind, price in US_EAST_1.by_type.items():
        name = "piops" if kind is VolumeType.IO1 else str(kind)
        unit = "GB-month" if kind is VolumeType.IO2 else "GB-Mo"
        usage = f"VolumeUsage.{name}"
        yield _product(region, "Storage", usage, unit, price.usd_per_gib * factor, volumeApiName=str(kind))
        yield _local_zone(region, usage, unit, price.usd_per_gib * 2, str(kind))
        for tier, (above, usd) in enumerate(price.iops_tiers, start=1):
            suffix = "" if tier == 1 else f".tier{tier}"
            begin = str(above) if kind is VolumeType.GP3 else "0"
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
    for kind_name, usd in _OTHERS.items():
        usage = "VolumeUsage" if kind_name == "standard" else f"VolumeUsage.{kind_name}"
        yield _product(region, "Storage", usage, "GB-Mo", usd * factor, volumeApiName=kind_name)
    yield _product(region, "System Operation", "VolumeIOUsage", "IOs", 0.00000005 * factor)
    yield _product(region, "Storage Snapshot", "SnapshotUsage", "GB-Mo", 0.05 * factor)


def _local_zone(region: str, usage: str, unit: str, usd: float, kind: str) -> dict[str, Any]:
    """A row of a Local Zone, which AWS lists under its region."""
    row = _product(region, "Storage", usage, unit, usd, volumeApiName=kind)
    told = row["product"]["attributes"]
    told["locationType"], told["location"] = "AWS Local Zone", "US East (Boston)"
    told["usagetype"] = f"USE1-BOS1-EBS:{usage}"
    return row


def _product(
    region: str, family: str, usage: str, unit: str, usd: float, *, begin: str = "0", **attributes: str
) -> dict[str, Any]:
    prefix, location = REGIONS[region]
    sku = hashlib.sha256(f"{region}{usage}{usd}".encode()).hexdigest()[:16].upper()
    term, dimension = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    kind = attributes.get("volumeApiName")
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
                **({"volumeType": _MEDIA.get(kind, "Provisioned IOPS")} if kind else {}),
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


def _passes(product: Mapping[str, Any], filters: Sequence[Mapping[str, str]]) -> bool:
    told = {"productFamily": product["product"]["productFamily"], **product["product"]["attributes"]}
    for each in filters:
        if each.get("Type") != "TERM_MATCH":
            raise _invalid(f"the lab only knows filters of type TERM_MATCH, not {each.get('Type')}")
        if str(told.get(each["Field"], "")).lower() != each["Value"].lower():
            return False
    return True


def _page(products: Sequence[Mapping[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    most = int(asked.get("MaxResults", MOST_PAGE))
    if not 1 <= most <= MOST_PAGE:
        raise _invalid(f"MaxResults must be between 1 and {MOST_PAGE}; it is {most}")
    first = _first_of(asked.get("NextToken"))
    told: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [json.dumps(each) for each in products[first : first + most]],
    }
    if first + most < len(products):
        told["NextToken"] = urlsafe_b64encode(str(first + most).encode()).decode()
    return told


def _first_of(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(urlsafe_b64decode(token))
    except ValueError:
        raise AwsError("InvalidNextTokenException", "the token is not one of this endpoint's") from None


def _invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterException", message)
