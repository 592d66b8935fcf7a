"""What AWS answers: parts missing, of the wrong kind, twice, out of order; and bytes without meaning."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from burstctl.advise.price_list import read_prices
from burstctl.context.on_demand_pass import assess_volumes, evaluate_fleet
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.ec2_modify import Accepted, DryRunAllowed, Ec2Modifier, OutcomeUnknown, Refused
from burstwatch.adapters.aws.errors import to_aws_failure
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.aws.flip_request import FlipRequest
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from support.aws.in_memory_aws import (
    BALANCES,
    CALM,
    DRAINING,
    GOOD_VOLUMES,
    INSTANCE,
    MINUTES,
    MODIFICATION,
    NOON,
    NOW_S,
    SILENT,
    CannedAws,
    a_described_volume,
    a_metric_result,
    services_with,
)
from support.aws.queried_clients import query_clients
from support.hostile_input import (
    NUMBERS,
    any_value,
    assert_message,
    fuzz,
    mangled_bytes,
    mutated,
    scalars,
    texts,
    within,
)

SPAN_S = (NOW_S - 600, NOW_S)


def look(aws):
    with SqliteLedger.in_memory() as ledger:
        shell = services_with(aws, ledger)
        report = evaluate_fleet(shell, now_s=NOW_S)
        repeated = assess_volumes(shell, [DRAINING, CALM, SILENT], now_s=NOW_S)
    for reported in (report, repeated):
        assert reported.internal_errors == []
        for failure in reported.failures:
            assert_message(failure)
    return report


def reported_volume(report, volume_id):
    """Everything that a pass says of a volume."""
    return [
        (d.level, d.assessment, d.alerts, d.reason, d.action)
        for d in report.decisions
        if d.volume_id == volume_id
    ]


@cache
def report_of_draining_volume():
    """What is said of the good volumes where nothing else is there."""
    report = look(CannedAws())
    reported = {item["VolumeId"]: reported_volume(report, item["VolumeId"]) for item in GOOD_VOLUMES}
    assert reported[DRAINING][0][0].is_alerting
    assert reported[CALM][0][0] is Level.OK
    return reported


bad_volumes = st.one_of(
    mutated(a_described_volume("vol-0000000000000000e"), most=4),
    st.builds(
        lambda key, value: a_described_volume("vol-0000000000000000e", **{key: value}),
        st.sampled_from(sorted(a_described_volume("vol-1"))),
        any_value,
    ),
    st.builds(
        lambda tags: a_described_volume("vol-0000000000000000e", Tags=tags),
        st.lists(
            st.fixed_dictionaries({}, optional={"Key": scalars, "Value": scalars}) | any_value, max_size=3
        ),
    ),
    any_value,
)


@fuzz(35)
@given(st.lists(st.tuples(st.integers(0, 3), bad_volumes), min_size=1, max_size=3))
def test_a_volume_that_is_described_badly_hides_no_other(bad_items):
    volumes = list(GOOD_VOLUMES)
    for place, bad_item in bad_items:
        volumes.insert(place, bad_item)
    with within(3):
        report = look(CannedAws(volumes=volumes))
    for volume_id, expected in report_of_draining_volume().items():
        if not any(isinstance(s, dict) and s.get("VolumeId") == volume_id for _, s in bad_items):
            assert reported_volume(report, volume_id) == expected


def test_a_volume_that_is_listed_twice_is_judged_like_one():
    report = look(CannedAws(volumes=[*GOOD_VOLUMES, *GOOD_VOLUMES]))
    for volume_id, expected in report_of_draining_volume().items():
        assert all(item == expected[0] for item in reported_volume(report, volume_id))


instants = st.one_of(
    st.sampled_from(MINUTES),
    st.sampled_from([NOON + timedelta(days=400), datetime(1, 1, 1, tzinfo=UTC)]),
    st.sampled_from([MINUTES[0].timestamp(), -1, 2**60]),
    scalars,
)
amounts = st.sampled_from([*NUMBERS, 100.4, 100.6, -0.4, True, "12"]) | st.floats(0, 100)
bad_results = st.one_of(
    mutated(a_metric_result("m0", BALANCES[DRAINING][:5]), most=4),
    st.builds(
        lambda pairs, status: (
            a_metric_result("m0", [])
            | {"Timestamps": [t for t, _ in pairs], "Values": [v for _, v in pairs], "StatusCode": status}
        ),
        st.lists(st.tuples(instants, amounts), max_size=6),
        st.sampled_from(["Complete", "Complete", "PartialData", "Forbidden", "InternalError", "New"])
        | scalars,
    ),
    st.builds(
        lambda times, values: a_metric_result("m0", []) | {"Timestamps": times, "Values": values},
        st.lists(instants, max_size=3) | any_value,
        st.lists(amounts, max_size=3) | any_value,
    ),
    any_value,
)


@fuzz(35)
@given(bad_results)
def test_invalid_samples_of_one_volume_affect_no_other(result):
    volume = a_described_volume("vol-0000000000000000e")
    with within(3):
        report = look(CannedAws(volumes=[*GOOD_VOLUMES, volume], results={volume["VolumeId"]: result}))
    for volume_id, expected in report_of_draining_volume().items():
        assert reported_volume(report, volume_id) == expected
    (about,) = reported_volume(report, volume["VolumeId"])
    balance = about[1].balance_pct
    assert balance is None or 0 <= balance <= 100


@fuzz(30)
@given(bad_results, st.sampled_from(["BurstBalance", "VolumeReadOps", "EBSIOBalance%"]))
def test_a_series_is_in_order_and_within_its_limits_or_it_is_unread(result, metric):
    class Answers:
        def get_metric_data(self, **request):
            return {"MetricDataResults": [result]}

    query = MetricQuery("vol-1", metric, "Minimum")
    results = CloudWatchReader(Answers(), workers=1).read([query], NOW_S - 600, NOW_S)
    if query in results.unread:
        assert_message(str(results.unread[query]))
        return
    series = results.series[query]
    assert isinstance(series, Series)
    assert list(series.starts_at_s) == sorted(set(series.starts_at_s))
    assert all(type(start_s) is int and start_s % 60 == 0 for start_s in series.starts_at_s)
    assert all(0 <= value < float("inf") for value in series.values)
    if metric != "VolumeReadOps":
        assert all(value <= 100 for value in series.values)


bad_modifications = st.one_of(
    mutated(MODIFICATION, most=4),
    st.builds(
        lambda key, value: MODIFICATION | {key: value}, st.sampled_from(sorted(MODIFICATION)), any_value
    ),
    any_value,
)


@fuzz(30)
@given(st.lists(bad_modifications, min_size=1, max_size=3))
def test_a_modification_that_is_reported_badly_hides_no_volume(modifications):
    with within(3):
        report = look(CannedAws(modifications=modifications))
    about = {
        modification.get("VolumeId")
        for modification in modifications
        if isinstance(modification, dict) and _hashable(modification)
    }
    for volume_id, expected in report_of_draining_volume().items():
        if volume_id not in about:
            assert reported_volume(report, volume_id) == expected


def _hashable(item):
    return isinstance(item.get("VolumeId"), str)


reservations = (
    st.lists(
        mutated(
            {"Instances": [INSTANCE, {"InstanceId": "i-2", "Tags": [{"Key": "Name", "Value": "x"}]}]}, most=4
        )
        | any_value,
        max_size=3,
    )
    | any_value
)


@fuzz(25)
@given(reservations)
def test_instances_that_are_reported_badly_hide_no_volume_with_data(described):
    with within(3):
        report = look(CannedAws(reservations=described))
    for volume_id in (DRAINING, CALM):
        assert reported_volume(report, volume_id) == report_of_draining_volume()[volume_id]
    assert reported_volume(report, SILENT)


PAGES = (
    {"Volumes": GOOD_VOLUMES[:2], "NextToken": "more"},
    {"VolumesModifications": [MODIFICATION], "NextToken": "more"},
    {"Reservations": [{"Instances": [INSTANCE]}]},
    {"MetricDataResults": [a_metric_result("m0", [50.0, 49.0])], "Messages": [{"Code": "x", "Value": "y"}]},
)
page_makers = st.sampled_from(PAGES).flatmap(lambda page: st.tuples(st.just(next(iter(page))), mutated(page)))


@fuzz(25)
@given(page_makers)
def test_a_page_that_is_not_a_page_is_reported_and_passes(case):
    listed, page = case
    with within(5):
        look(
            CannedAws(modifications=[MODIFICATION], page=lambda answer: page if listed in answer else answer)
        )


@fuzz(15)
@given(st.lists(texts | st.sampled_from(["a", "b"]), min_size=1, max_size=6))
def test_a_listing_that_goes_round_in_circles_has_an_end(tokens):
    """Tokens may come again later than at once."""
    requested = count()

    class Circling(CannedAws):
        def describe_volumes(self, **request):
            number = next(requested)
            assert number < 200_000
            return {"Volumes": [], "NextToken": tokens[number % len(tokens)]}

    with SqliteLedger.in_memory() as ledger, within(10):
        report = evaluate_fleet(services_with(Circling(), ledger), now_s=NOW_S)
    assert report.failures or "" in tokens


answers = st.fixed_dictionaries({"VolumeModification": bad_modifications}) | any_value


@fuzz(25)
@given(answers)
def test_every_modify_volume_response_is_one_of_four_results(answer):
    class Answers:
        def modify_volume(self, **request):
            return answer

    wanted = Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=125)
    result = Ec2Modifier(Answers()).modify("vol-1", wanted)
    assert isinstance(result, Accepted | OutcomeUnknown)
    if isinstance(result, OutcomeUnknown):
        assert_message(str(result.failure))


CODES = (
    *("VolumeModificationRateExceeded", "RequestExpired", "SignatureDoesNotMatch", "UnauthorizedOperation"),
    *(
        "ExpiredToken",
        "DryRunOperation",
        "Throttling",
        "InternalError",
        "IncorrectState",
        "InvalidVolume.NotFound",
    ),
)
SENTENCES = (
    "Wait until 2026-11-20T18:00:00+0000",
    "wait until 9999-12-31T23:59:59-14:00",
    "Signature expired: 99999999T999999Z is now earlier than 20261120T180000Z",
    "User: arn:\x1b[31m is not authorized to perform: ec2:ModifyVolume on resource: \u202e" + "x" * 5_000,
    "with an explicit deny",
)
errors = st.builds(
    lambda code, message, date, status: {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"date": date}},
    },
    st.sampled_from(CODES) | texts,
    st.sampled_from(SENTENCES) | texts,
    st.sampled_from(["Fri, 20 Nov 2026 18:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -1400"]) | texts,
    st.sampled_from([200, 400, 403, 500, 503]),
)


@fuzz(35)
@given(errors)
def test_an_error_of_aws_is_reported_in_one_sentence_whatever_its_content(response):
    error = ClientError(response, "ModifyVolume")
    assert_message(str(to_aws_failure(error, "ec2:ModifyVolume")))

    class Refusing:
        def modify_volume(self, **request):
            raise error

    wanted = Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=125)
    assert isinstance(
        Ec2Modifier(Refusing()).modify("vol-1", wanted), Refused | OutcomeUnknown | DryRunAllowed
    )


PRODUCT = {
    "product": {
        "productFamily": "Storage",
        "attributes": {
            "usagetype": "EBS:VolumeUsage.gp3",
            "locationType": "AWS Region",
            "regionCode": "us-east-1",
        },
    },
    "terms": {
        "OnDemand": {
            "X": {"priceDimensions": {"Y": {"unit": "GB-Mo", "pricePerUnit": {"USD": "0.08"}}}},
        }
    },
    "publicationDate": "2026-11-01T00:00:00Z",
}


def as_json(value):
    try:
        return json.dumps(value)
    except ValueError:
        return repr(value)


products = st.one_of(mutated(PRODUCT, most=4).map(as_json), any_value.map(as_json), texts, any_value)


@fuzz(35)
@given(st.lists(products, max_size=4) | any_value)
def test_a_price_list_gives_prices_or_the_built_in_ones_and_names_which(listed):
    class Pricing:
        def get_products(self, **request):
            return {"PriceList": listed}

    with within(3):
        price_table = read_prices(Pricing(), "us-east-1")
    assert price_table.faults
    for fault in price_table.faults:
        assert_message(fault)
    for kind in VolumeType:
        price = price_table.table.by_type[kind]
        assert 0 < price.usd_per_gib < float("inf")


REQUEST = FlipRequest(
    volume_id="vol-00000001",
    direction=Direction.FLIP,
    cause=FlipCause.DRAINING,
    because="it drains",
    requested_at_s=int(NOW_S),
)
send_responses = mutated(
    {"Successful": [{"Id": "0", "MessageId": "m"}], "Failed": [{"Id": "0", "Code": "x", "Message": "y"}]},
    most=4,
)


@fuzz(25)
@given(send_responses.filter(lambda answer: isinstance(answer, dict)))
def test_what_the_queue_answers_leaves_no_request_unaccounted(answer):
    class Queue:
        def send_message_batch(self, **request):
            return answer

    sending = FlipQueue(Queue(), "https://queue").send([REQUEST])
    assert sending.sent | sending.failed.keys() == {"vol-00000001"}
    for item in sending.failed.values():
        assert_message(item)


# ---- bytes


@fuzz(25)
@given(data=st.data())
def test_invalid_bytes_are_a_reported_failure(protocol_clients, data):
    clients, responses = protocol_clients
    bodies = {
        name: data.draw(
            mangled_bytes(response.content) | st.sampled_from([b"", b"{}", b"[]", b"null", b"<a/>"])
        )
        for name, response in sorted(responses.items())
    }
    status = data.draw(st.sampled_from([200, 200, 200, 400, 403, 500, 299]))

    def answer(request, event_name="", **_):
        name = event_name.rpartition(".")[2]
        return ReplayedResponse(request.url, status, dict(responses[name].headers), bodies[name])

    for name, client in clients.items():
        client.meta.events.register(f"before-send.{name}", answer, unique_id="fuzz")
    try:
        with within(10):
            for trouble in query_clients(clients):
                assert_message(str(trouble))
    finally:
        for name, client in clients.items():
            client.meta.events.unregister(f"before-send.{name}", answer, unique_id="fuzz")


class ReplayedResponse(AWSResponse):
    """An answer that comes from nowhere."""

    def __init__(self, url, status, headers, body):
        super().__init__(url, status, headers, None)
        self._content = body
