"""Prices from AWS's price list, asked for over HTTP; and every way in which it may not say."""

import json
from copy import deepcopy
from dataclasses import replace
from datetime import date

import pytest
from botocore.exceptions import ClientError

from burstctl.advise.price_list import read_prices
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.price_list import REGIONS
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from support.aws.loopback_aws import CannedResponse, loopback_aws


def prices_of(lab, region):
    return read_prices(lab.client("pricing"), region)


def io2(iops):
    return Configuration(volume_type=VolumeType.IO2, iops=iops)


def test_us_east_1_costs_what_the_built_in_table_lists_and_is_dated_by_the_list(lab):
    result = prices_of(lab, "us-east-1")
    assert result.table == replace(US_EAST_1, as_of=date(2026, 10, 28))
    assert result.faults == ()
    assert not result.is_built_in


@pytest.mark.parametrize("region", sorted(REGIONS.keys() - {"us-east-1"}))
def test_another_region_has_prices_of_its_own_whatever_its_usage_types_begin_with(lab, region):
    result = prices_of(lab, region)
    assert result.faults == ()
    assert result.table.region == region
    # a tenth more in the lab: 100 x 0.088 + 1,000 x 0.0055 + 25 x 0.044
    gp3 = Configuration(volume_type=VolumeType.GP3, iops=4_000, throughput_mib_s=150)
    assert usd_per_month(gp3, 100, result.table) == pytest.approx(8.8 + 5.5 + 1.1)
    # io2 has three tiers: 32,000 x 0.0715 + 32,000 x 0.05005 + 1,000 x 0.035035
    assert usd_per_month(io2(65_000), 1, result.table) == pytest.approx(0.1375 + 2_288 + 1_601.6 + 35.035)


def test_it_takes_a_call_for_each_family(lab):
    calls = CallCounter()
    client = lab.client("pricing")
    calls.attach(client)
    read_prices(client, "eu-west-1")
    assert calls.calls == {"pricing:GetProducts": 3}


def test_a_region_that_is_not_on_the_list_gets_the_built_in_prices_loudly(lab):
    result = prices_of(lab, "mars-north-1")
    assert result.table is US_EAST_1
    assert result.is_built_in
    [fault] = result.faults
    assert "built-in prices of us-east-1 of 2026-09-30 are used" in fault
    assert "mars-north-1 may cost more" in fault


@pytest.mark.parametrize(
    "usage", ["VolumeUsage.io2", "VolumeP-IOPS.io2", "VolumeP-IOPS.io2.tier2", "VolumeP-IOPS.io2.tier3"]
)
def test_a_type_whose_price_is_not_complete_is_taken_whole_from_the_built_in_table(lab, usage):
    lab.prices.excluded_usage_types.add(usage)
    result = prices_of(lab, "eu-west-1")
    assert result.table.by_type[VolumeType.IO2] == US_EAST_1.by_type[VolumeType.IO2]
    assert result.table.by_type[VolumeType.GP3] != US_EAST_1.by_type[VolumeType.GP3]
    [fault] = result.faults
    assert fault.startswith("AWS's price list of eu-west-1 is not complete for io2")
    assert not result.is_built_in


@pytest.mark.parametrize("kind", ["error", "throttle"])
def test_an_api_failure_is_reported_but_not_fatal(lab, kind):
    lab.faults.add(Fault(kind=kind, action="GetProducts"))
    price_table = read_prices(lab.client("pricing"), "us-east-1")
    assert price_table.table is US_EAST_1
    assert "pricing:GetProducts failed" in price_table.faults[0]


def test_a_missing_permission_names_the_permission():
    text = "User: arn:aws:iam::1:user/anna is not authorized to perform: pricing:GetProducts"
    denied = CannedResponse(
        json.dumps({"__type": "AccessDeniedException", "Message": text}).encode(),
        status=400,
        content_type="application/x-amz-json-1.1",
    )
    with loopback_aws(lambda _n, _body: denied) as aws:
        price_table = read_prices(aws.client("pricing"), "us-east-1")
    assert price_table.is_built_in
    assert "grant pricing:GetProducts" in price_table.faults[0]


def test_an_unreachable_price_list_is_reported_too():
    with loopback_aws(lambda _n, _body: CannedResponse(b"")) as aws:
        client = aws.client("pricing")
    assert "could not be reached" in read_prices(client, "us-east-1").faults[0]


class CannedPriceList:
    """Answers with these products, whatever is asked; two to a page."""

    def __init__(self, products):
        self.products = products

    def get_products(self, **request):
        family = next(item["Value"] for item in request["Filters"] if item["Field"] == "productFamily")
        matching = [
            item
            for item in self.products
            if isinstance(item, str) or item["product"]["productFamily"] == family
        ]
        first = int(request.get("NextToken", 0))
        reported = [
            item if isinstance(item, str) else json.dumps(item) for item in matching[first : first + 2]
        ]
        rest = {"NextToken": str(first + 2)} if first + 2 < len(matching) else {}
        return {"PriceList": reported, **rest}


def products_of(products, usage):
    [result] = [
        product
        for product in products
        if product["product"]["attributes"]["usagetype"] == f"EBS:{usage}"
        and product["product"]["attributes"]["locationType"] == "AWS Region"
    ]
    return result


def dimensions(product):
    [term] = product["terms"]["OnDemand"].values()
    return term["priceDimensions"]


def dimension(product):
    [result] = dimensions(product).values()
    return result


def read_prices_from(products):
    return read_prices(CannedPriceList(products), "us-east-1")


def test_pages_are_put_together(products):
    assert read_prices_from(products).table.by_type == US_EAST_1.by_type


def test_throughput_may_be_listed_by_the_mib(products):
    reported = dimension(products_of(products, "VolumeP-Throughput.gp3"))
    assert reported["unit"] == "GiBps-mo"
    assert reported["pricePerUnit"] == {"USD": "40.9600000000"}
    reported.update(unit="MiBps-Mo", pricePerUnit={"USD": "0.04"})
    assert read_prices_from(products).table.by_type == US_EAST_1.by_type


def test_what_is_included_may_be_listed_for_nothing(products):
    iops = products_of(products, "VolumeP-IOPS.gp3")
    free = deepcopy(dimension(iops)) | {"beginRange": "0", "endRange": "3000", "pricePerUnit": {"USD": "0.0"}}
    dimensions(iops)["free"] = free
    assert read_prices_from(products).table.by_type == US_EAST_1.by_type


def test_local_zones_outposts_and_reserved_terms_are_left_aside(products):
    assert any(product["product"]["attributes"]["locationType"] == "AWS Local Zone" for product in products)
    outpost = deepcopy(products_of(products, "VolumeUsage.gp3"))
    outpost["product"]["attributes"]["locationType"] = "AWS Outposts"
    dimension(outpost)["pricePerUnit"]["USD"] = "9.0"
    misfiled = deepcopy(products_of(products, "VolumeUsage.gp3"))
    misfiled["product"]["attributes"]["usagetype"] = "USE1-BOS1-EBS:VolumeUsage.gp3"
    dimension(misfiled)["pricePerUnit"]["USD"] = "9.0"
    elsewhere = deepcopy(products_of(products, "VolumeUsage.gp3"))
    elsewhere["product"]["attributes"]["regionCode"] = "us-west-2"
    dimension(elsewhere)["pricePerUnit"]["USD"] = "9.0"
    products_of(products, "VolumeUsage.gp2")["terms"]["Reserved"] = {
        "x": {"priceDimensions": {"y": {"unit": "GB-Mo", "pricePerUnit": {"USD": "9.0"}}}}
    }
    result = read_prices_from([outpost, misfiled, elsewhere, *products])
    assert result.table.by_type == US_EAST_1.by_type
    assert result.faults == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"unit": "TB-Mo"}, "it is for 'TB-Mo', which is not known"),
        ({"pricePerUnit": {"CNY": "0.7"}}, "it is not in dollars"),
        ({"pricePerUnit": {"USD": "a dime"}}, "'a dime' is not a valid price"),
        ({"pricePerUnit": {"USD": "-1"}}, "'-1' is not a valid price"),
        ({"pricePerUnit": {"USD": "NaN"}}, "'NaN' is not a valid price"),
        ({"pricePerUnit": {"USD": "0"}}, "it has 0 prices, not one"),
    ],
)
def test_a_row_that_makes_no_sense_is_reported_and_its_type_falls_back(products, changed, why):
    dimension(products_of(products, "VolumeUsage.gp3")).update(changed)
    result = read_prices_from(products)
    assert result.table.by_type == US_EAST_1.by_type
    assert result.faults[0] == f"AWS's price list, VolumeUsage.gp3 in us-east-1: {why}"
    assert "not complete for gp3" in result.faults[1]


def test_of_two_prices_for_one_item_none_is_guessed(products):
    row = products_of(products, "VolumeUsage.gp3")
    dimensions(row)["another"] = deepcopy(dimension(row)) | {"pricePerUnit": {"USD": "0.07"}}
    assert "it has 2 prices, not one" in read_prices_from(products).faults[0]


def test_of_duplicate_prices_the_higher_counts(products):
    repeated = deepcopy(products_of(products, "VolumeUsage.gp3"))
    dimension(repeated)["pricePerUnit"]["USD"] = "0.09"
    assert read_prices_from([repeated, *products]).table.by_type[VolumeType.GP3].usd_per_gib == 0.09
    assert read_prices_from([*products, repeated]).table.by_type[VolumeType.GP3].usd_per_gib == 0.09


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"'])
def test_an_invalid_product_is_ignored(products, text):
    result = read_prices_from([text, *products])
    assert result.table.by_type == US_EAST_1.by_type
    assert "a product is not readable" in result.faults[0]


def test_the_oldest_date_counts(products):
    products_of(products, "VolumeUsage.piops")["publicationDate"] = "2026-03-01T00:00:00Z"
    assert read_prices_from(products).table.as_of == date(2026, 3, 1)


def test_an_invalid_date_is_reported(products):
    products_of(products, "VolumeUsage.gp2")["publicationDate"] = "lately"
    assert "which is not a valid date" in read_prices_from(products).faults[0]


def test_the_labs_list_is_paged_as_aws_pages_it(lab):
    client = lab.client("pricing")
    filters = [{"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"}]
    whole = client.get_products(ServiceCode="AmazonEC2", Filters=filters)["PriceList"]
    products, token = [], {}
    while True:
        answer = client.get_products(ServiceCode="AmazonEC2", Filters=filters, MaxResults=4, **token)
        assert len(answer["PriceList"]) <= 4
        products += answer["PriceList"]
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    assert products == whole


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"ServiceCode": "AmazonS3"}, "NotFoundException"),
        ({"MaxResults": 101}, "InvalidParameterException"),
        ({"NextToken": "?"}, "InvalidNextTokenException"),
        (
            {"Filters": [{"Type": "CONTAINS", "Field": "usagetype", "Value": "EBS"}]},
            "InvalidParameterException",
        ),
    ],
)
def test_the_labs_list_refuses_what_it_does_not_know(lab, parameters, code):
    with pytest.raises(ClientError) as refused:
        lab.client("pricing").get_products(**{"ServiceCode": "AmazonEC2"} | parameters)
    assert refused.value.response["Error"]["Code"] == code


def test_the_labs_list_has_endpoints_where_aws_has_them():
    with (
        Endpoint(LabFleet(LabClock(speed=0), LabSettings(region="eu-west-1"))) as lab,
        pytest.raises(ClientError, match="no endpoint in eu-west-1"),
    ):
        lab.client("pricing").get_products(ServiceCode="AmazonEC2")


@pytest.mark.parametrize("part", ["product", "terms"])
@pytest.mark.parametrize(
    "value", [None, [], "x", {"OnDemand": None}, {"OnDemand": {"X": {"priceDimensions": [1]}}}]
)
def test_a_product_laid_out_otherwise_gives_no_price_and_hides_no_other(part, value):
    class Pricing:
        def get_products(self, **_):
            return {"PriceList": [json.dumps({part: value})]}

    price_table = read_prices(Pricing(), "us-east-1")
    assert price_table.is_built_in
    assert price_table.faults
