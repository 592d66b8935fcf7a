"""A region's prices from AWS's price list; built-in prices replace those that are missing, with a note.

Peculiarities of the Price List API (AWS Price List API reference; EBS user guide, "Understanding EBS
billing"):

- io1 is called ``piops``.
- Every region but us-east-1 has a prefix in its usage types (``EUC1-EBS:VolumeUsage.gp3``).
- The storage of io2 is in ``GB-month`` instead of ``GB-Mo``; each tier of its IOPS is a product.
- The throughput of gp3 is priced per GiB/s, which is 1,024 times the price per MiB/s.
- Local Zones and Outposts are among the rows of their region, and reserved terms among the on-demand ones.
- Each product is a JSON text inside the JSON response.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from math import isfinite
from typing import Any, Final

from burstwatch.adapters.aws.botocore_hooks import paginate
from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.core.ebs.pricing import US_EAST_1, PriceTable, TypePrice, VolumeType
from burstwatch.core.errors import Problem
from burstwatch.core.text import sanitise

ENDPOINT_REGION: Final = "us-east-1"
"""The API has endpoints in three regions only; each has the prices of all regions."""

_ACTION: Final = "pricing:GetProducts"
_PAGE_SIZE: Final = 100
"""The largest page of GetProducts (Price List API reference)."""
_PRICE_DIMENSIONS_KEY: Final = "priceDimensions"
_MAX_FAULT_CHARS: Final = 300  # keeps a fault to two or three lines
_STORAGE: Final = "Storage"
_IOPS: Final = "System Operation"
_THROUGHPUT: Final = "Provisioned Throughput"
_GIB_UNITS: Final = {"gb-mo": 1.0, "gb-month": 1.0}
_IOPS_UNITS: Final = {"iops-mo": 1.0, "iops-month": 1.0}
_MIB_S_UNITS: Final = {"gibps-mo": 1 / 1024, "gibps-month": 1 / 1024, "mibps-mo": 1.0, "mibps-month": 1.0}
_UNITS: Final = {_STORAGE: _GIB_UNITS, _IOPS: _IOPS_UNITS, _THROUGHPUT: _MIB_S_UNITS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesResult:
    """The prices to calculate with; ``faults`` name those that are not the region's own, and why."""

    table: PriceTable
    region: str
    faults: Sequence[str] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether none of the prices is from AWS's price list."""
        return self.table is US_EAST_1


@dataclass(frozen=True, slots=True)
class _Price:
    usd: float
    published_on: date


class _UnreadablePrice(Exception):  # noqa: N818 - a row that says something else than we know, no error of ours
    """Why a row of the list yields no price."""


def read_prices(client: Any, region: str) -> PricesResult:
    """Read what volumes cost in ``region``; never raises, but reports each price that is a built-in one.

    Args:
        client: a client of the service ``pricing`` in ``ENDPOINT_REGION``.
        region: the region of the volumes.
    """
    prices: dict[tuple[str, str], _Price] = {}
    faults: list[str] = []
    try:
        for family in (_STORAGE, _IOPS, _THROUGHPUT):
            prices |= _read_family_prices(client, region, family, faults)
    except AWS_ERRORS as error:
        return _fall_back_to_built_in(region, to_aws_failure(error, _ACTION).problem)
    if not prices:
        return _fall_back_to_built_in(
            region, "; ".join(faults) or f"AWS's price list has no volumes of {region}"
        )
    by_type: dict[VolumeType, TypePrice] = {}
    for volume_type in VolumeType:
        listed_price = _type_price(volume_type, prices)
        if listed_price is None:
            faults.append(
                f"AWS's price list of {region} is not complete for {volume_type}: {_describe_built_in()}"
                " are used instead"
            )
        by_type[volume_type] = listed_price or US_EAST_1.by_type[volume_type]
    as_of = min(price.published_on for price in prices.values())
    return PricesResult(
        table=PriceTable(region=region, as_of=as_of, by_type=by_type), region=region, faults=tuple(faults)
    )


def _fall_back_to_built_in(region: str, reason: str) -> PricesResult:
    region_note = "" if region == US_EAST_1.region else f"; {region} may cost more"
    problem = Problem.of(reason)
    fault = Problem(
        f"{_describe_built_in()} are used and may be outdated{region_note}: {problem.cause}", problem.fix
    )
    return PricesResult(table=US_EAST_1, region=region, faults=(fault,))


def _describe_built_in() -> str:
    return f"the built-in prices of {US_EAST_1.region} of {US_EAST_1.as_of:%Y-%m-%d}"


def _read_family_prices(
    client: Any, region: str, family: str, faults: list[str]
) -> dict[tuple[str, str], _Price]:
    """The prices of one product family, by family and usage type; unexpected rows are added to ``faults``."""
    prices: dict[tuple[str, str], _Price] = {}
    for product in _list_products(client, region, family, faults):
        usage_name = _usage_name(product, region)
        if usage_name is None or not _is_wanted(family, usage_name):
            continue
        try:
            price = _read_price(product, family)
        except _UnreadablePrice as error:
            faults.append(sanitise(f"AWS's price list, {usage_name} in {region}: {error}", _MAX_FAULT_CHARS))
            continue
        known_price = prices.get((family, usage_name))
        if known_price is None or price.usd > known_price.usd:
            prices[family, usage_name] = price
    return prices


def _list_products(client: Any, region: str, family: str, faults: list[str]) -> Iterator[Mapping[str, Any]]:
    filters = {"productFamily": family, "regionCode": region}
    price_pages = paginate(
        client.get_products,
        list_key="PriceList",
        ServiceCode="AmazonEC2",
        FormatVersion="aws_v1",
        MaxResults=_PAGE_SIZE,
        Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()],
    )
    for page in price_pages:
        for text in page["PriceList"]:
            try:
                product = json.loads(text)
            except (TypeError, ValueError, RecursionError):
                product = None
            fault = f"AWS's price list, {family} in {region}: a product is not readable"
            if isinstance(product, dict):
                yield product
            elif fault not in faults:
                faults.append(fault)


def _usage_name(product: Mapping[str, Any], region: str) -> str | None:
    """The usage type without the region's prefix; None if it is not for volumes of the region itself."""
    attributes = _nested(product, "product", "attributes")
    usage = str(attributes.get("usagetype", ""))
    prefix, separator, name = usage.partition("EBS:")
    is_own = attributes.get("locationType") == "AWS Region" and attributes.get("regionCode", region) == region
    return name if separator and is_own and prefix.count("-") <= 1 else None


def _is_wanted(family: str, name: str) -> bool:
    return any((family, name) in components for components in _PRICE_COMPONENTS.values())


_PRICE_COMPONENTS: Final = {
    VolumeType.GP2: ((_STORAGE, "VolumeUsage.gp2"),),
    VolumeType.GP3: (
        (_STORAGE, "VolumeUsage.gp3"),
        (_IOPS, "VolumeP-IOPS.gp3"),
        (_THROUGHPUT, "VolumeP-Throughput.gp3"),
    ),
    VolumeType.IO1: ((_STORAGE, "VolumeUsage.piops"), (_IOPS, "VolumeP-IOPS.piops")),
    VolumeType.IO2: (
        (_STORAGE, "VolumeUsage.io2"),
        (_IOPS, "VolumeP-IOPS.io2"),
        (_IOPS, "VolumeP-IOPS.io2.tier2"),
        (_IOPS, "VolumeP-IOPS.io2.tier3"),
    ),
}
"""The components of the price of a type: storage, then IOPS from the lowest tier up, then throughput."""


def _read_price(product: Mapping[str, Any], family: str) -> _Price:
    """The on-demand price of a product, for a known unit.

    Raises:
        _UnreadablePrice: The product has no price, or several, or its unit is unknown.
    """
    terms = _nested(product, "terms", "OnDemand")
    dimensions = [
        _nested(price_dimensions, name)
        for key in terms
        for price_dimensions in [_nested(terms, key, _PRICE_DIMENSIONS_KEY)]
        for name in price_dimensions
    ]
    prices: set[float] = set()
    for dimension in dimensions:
        factor = _UNITS[family].get(str(dimension.get("unit", "")).lower())
        if factor is None:
            raise _UnreadablePrice(f"it is for {dimension.get('unit')!r}, which is not known")
        text = _nested(dimension, "pricePerUnit").get("USD")
        if text is None:
            raise _UnreadablePrice("it is not in dollars")
        prices.add(_parse_usd(text) * factor)
    prices.discard(0.0)  # what is included is listed as well, for nothing
    if len(prices) != 1:
        raise _UnreadablePrice(f"it has {len(prices)} prices, not one")
    return _Price(prices.pop(), _publication_date(product))


def _nested(mapping: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The mapping at a path of names; an empty one if the value is not a mapping."""
    for name in names:
        value = mapping.get(name)
        mapping = value if isinstance(value, Mapping) else {}
    return mapping


def _parse_usd(text: Any) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise _UnreadablePrice(f"{text!r} is not a valid price")
    return value


def _publication_date(product: Mapping[str, Any]) -> date:
    text = str(product.get("publicationDate", ""))
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        raise _UnreadablePrice(f"it was published on {text!r}, which is not a valid date") from None


def _type_price(volume_type: VolumeType, prices: Mapping[tuple[str, str], _Price]) -> TypePrice | None:
    """The price of a type, with the included amounts of the built-in one; None if a component is missing."""
    built_in = US_EAST_1.by_type[volume_type]
    parts = [prices.get(name) for name in _PRICE_COMPONENTS[volume_type]]
    usd = [part.usd for part in parts if part is not None]
    if len(usd) < len(parts):
        return None
    tiers = tuple((above, usd[1 + index]) for index, (above, _) in enumerate(built_in.iops_tiers))
    return replace(
        built_in,
        usd_per_gib=usd[0],
        iops_tiers=tiers,
        usd_per_mib_s=round(usd[-1], 9) if built_in.free_mib_s else 0.0,
    )
