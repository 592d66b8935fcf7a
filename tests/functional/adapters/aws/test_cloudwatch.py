from datetime import UTC, datetime
from itertools import count
from threading import Barrier

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from hypothesis import given, settings
from hypothesis import strategies as st

from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.errors import FailureKind
from burstwatch.core.buckets.series import Series
from support.aws.loopback_aws import json_answer, loopback_aws
from support.builders.core_values import at

START_S, END_S = at("11:50"), at("12:00")
SPAN = (START_S, END_S)


def balance_of(volume_id="vol-1"):
    return MetricQuery(volume_id, "BurstBalance", "Minimum")


def balances_of(number):
    return [balance_of(f"vol-{nth}") for nth in range(number)]


def instants(*clocks):
    return [datetime.fromtimestamp(at(clock), UTC) for clock in clocks]


def result(id_="m0", values=(), clocks=(), status="Complete", **options):
    return {
        "Id": id_,
        "Timestamps": instants(*clocks),
        "Values": list(values),
        "StatusCode": status,
        **options,
    }


def refusal(code, message="no"):
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetMetricData")


class FakeCloudWatch:
    """Answers each query with ``answer(query)``, and keeps every request."""

    def __init__(self, answer=lambda query: result(query["Id"], [50.0], ["11:58"])):
        self.answer = answer
        self.requests = []

    def get_metric_data(self, **request):
        self.requests.append(request)
        return {"MetricDataResults": [self.answer(query) for query in request["MetricDataQueries"]]}


class PagedCloudWatch:
    """Answers one page after the other."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.tokens = []

    def get_metric_data(self, **request):
        self.tokens.append(request.get("NextToken"))
        return self.pages.pop(0)


def queried_volume_id(query):
    return query["MetricStat"]["Metric"]["Dimensions"][0]["Value"]


def read_one(client, query=None):
    """The outcome of one query: its series, or the failure."""
    query = query or balance_of()
    results = CloudWatchReader(client).read([query], *SPAN)
    assert results.series.keys() | results.unread.keys() == {query}
    return results.series.get(query, results.unread.get(query))


def test_the_request_names_volume_metric_statistic_and_period_and_no_unit():
    client = boto3.client(
        "cloudwatch", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )
    requested = {
        "MetricDataQueries": [
            {
                "Id": "m0",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/EBS",
                        "MetricName": "BurstBalance",
                        "Dimensions": [{"Name": "VolumeId", "Value": "vol-1"}],
                    },
                    "Period": 60,
                    "Stat": "Minimum",
                },
            }
        ],
        "StartTime": datetime(2026, 11, 20, 11, 50, tzinfo=UTC),
        "EndTime": datetime(2026, 11, 20, 12, 0, tzinfo=UTC),
        "ScanBy": "TimestampAscending",
    }
    answer = {"MetricDataResults": [result(values=[99.0, 98.5], clocks=["11:57", "11:58"])]}
    with Stubber(client) as stub:
        stub.add_response("get_metric_data", answer, requested)
        assert read_one(client) == Series((int(at("11:57")), int(at("11:58"))), (99.0, 98.5))


def test_a_volume_without_datapoints_has_an_empty_series_which_is_a_gap():
    assert read_one(PagedCloudWatch({"MetricDataResults": [result()]})) == Series()


def test_a_query_that_the_answer_leaves_out_is_unread_not_empty():
    failure = read_one(PagedCloudWatch({"MetricDataResults": []}))
    assert failure.code == "NoResult"
    assert "BurstBalance of vol-1" in str(failure)


def test_500_queries_go_into_one_call():
    client = FakeCloudWatch()
    results = CloudWatchReader(client, sleep=lambda _: None).read(balances_of(1001), *SPAN)
    assert len(results.series) == 1001
    assert sorted(len(request["MetricDataQueries"]) for request in client.requests) == [1, 500, 500]


def test_no_queries_are_no_call():
    client = FakeCloudWatch()
    assert not CloudWatchReader(client).read([], *SPAN).series
    assert client.requests == []


def test_pages_are_merged_by_id():
    client = PagedCloudWatch(
        {
            "MetricDataResults": [result(values=[9.0], clocks=["11:56"], status="PartialData")],
            "NextToken": "t",
        },
        {"MetricDataResults": [result(values=[8.0, 7.0], clocks=["11:57", "11:58"])]},
    )
    assert read_one(client).values == (9.0, 8.0, 7.0)
    assert client.tokens == [None, "t"]


def test_samples_out_of_order_are_put_in_order():
    client = PagedCloudWatch({"MetricDataResults": [result(values=[7.0, 9.0], clocks=["11:58", "11:56"])]})
    assert read_one(client) == Series((int(at("11:56")), int(at("11:58"))), (9.0, 7.0))


def test_an_instant_within_a_minute_counts_as_its_start():
    client = PagedCloudWatch({"MetricDataResults": [result(values=[7.0], clocks=["11:58:59"])]})
    assert read_one(client).starts_at_s == (int(at("11:58")),)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("PartialData", FailureKind.RETRYABLE),
        ("InternalError", FailureKind.RETRYABLE),
        ("Forbidden", FailureKind.REFUSED),
        ("Surprise", FailureKind.BROKEN),
    ],
)
def test_an_incomplete_result_is_unread_and_keeps_the_reason_from_cloudwatch(status, kind):
    text = [{"Code": "Why", "Value": "because"}]
    partly = result(values=[50.0], clocks=["11:58"], status=status, Messages=text)
    failure = read_one(PagedCloudWatch({"MetricDataResults": [partly]}))
    assert (failure.kind, failure.code) == (kind, status)
    assert "Why: because" in str(failure)


def test_an_internal_error_made_good_on_the_next_page_is_complete():
    client = PagedCloudWatch(
        {"MetricDataResults": [result(status="InternalError")], "NextToken": "t"},
        {"MetricDataResults": [result(values=[8.0], clocks=["11:57"])]},
    )
    assert read_one(client).values == (8.0,)


def test_a_result_without_status_is_unread():
    assert read_one(PagedCloudWatch({"MetricDataResults": [{"Id": "m0"}]})).code == "NoStatusCode"


def test_one_bad_result_hides_no_other():
    def answer(query):
        status = "Forbidden" if queried_volume_id(query) == "vol-1" else "Complete"
        return result(query["Id"], [50.0], ["11:58"], status)

    results = CloudWatchReader(FakeCloudWatch(answer)).read(balances_of(3), *SPAN)
    assert set(results.series) == {balance_of("vol-0"), balance_of("vol-2")}
    assert set(results.unread) == {balance_of("vol-1")}


def test_messages_of_cloudwatch_about_the_whole_call_are_kept():
    page = {"MetricDataResults": [result()], "Messages": [{"Code": "Max", "Value": "too many metrics"}]}
    assert CloudWatchReader(PagedCloudWatch(page)).read([balance_of()], *SPAN).messages == [
        "Max: too many metrics"
    ]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([0.0, 100.0], (0.0, 100.0)),
        ([-0.4, 100.4], (0.0, 100.0)),
        ([50.0, 100.0000001], (50.0, 100.0)),
    ],
)
def test_a_balance_a_little_out_of_range_is_rounding(values, read):
    client = PagedCloudWatch({"MetricDataResults": [result(values=values, clocks=["11:57", "11:58"])]})
    assert read_one(client).values == read


@pytest.mark.parametrize(
    "nonsense", [float("nan"), float("inf"), -float("inf"), -1.0, 101.0, 5_400_000.0, "NaN", None]
)
def test_a_balance_that_cannot_be_makes_the_series_unread(nonsense):
    client = PagedCloudWatch(
        {"MetricDataResults": [result(values=[50.0, nonsense], clocks=["11:57", "11:58"])]}
    )
    failure = read_one(client)
    assert failure.code == "ImplausibleValue"
    assert "BurstBalance is between 0 and 100" in str(failure)


def test_operations_may_be_more_than_a_hundred_but_not_negative():
    operations = MetricQuery("vol-1", "VolumeReadOps", "Sum")
    many = PagedCloudWatch({"MetricDataResults": [result(values=[180_000.0], clocks=["11:58"])]})
    assert read_one(many, operations).values == (180_000.0,)
    fewer_than_none = PagedCloudWatch({"MetricDataResults": [result(values=[-5.0], clocks=["11:58"])]})
    assert read_one(fewer_than_none, operations).code == "ImplausibleValue"


def test_operations_without_end_are_not_a_number_of_operations():
    operations = MetricQuery("vol-1", "VolumeReadOps", "Sum")
    endless = PagedCloudWatch({"MetricDataResults": [result(values=[float("inf")], clocks=["11:58"])]})
    assert read_one(endless, operations).code == "ImplausibleValue"


def test_values_without_timestamps_are_unread():
    client = PagedCloudWatch({"MetricDataResults": [result(values=[50.0, 49.0], clocks=["11:58"])]})
    assert read_one(client).code == "UnpairedValues"


def test_an_empty_span_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="its end must be after its start"):
        CloudWatchReader(FakeCloudWatch()).read([balance_of()], END_S, END_S)


def test_a_metric_of_an_instance_is_requested_where_it_is_published():
    query = MetricQuery("i-1", "EBSIOBalance%", "Minimum", "InstanceId")
    client = FakeCloudWatch()
    assert CloudWatchReader(client).read([query], *SPAN).series[query].values == (50.0,)
    [[query]] = [request["MetricDataQueries"] for request in client.requests]
    assert query["MetricStat"]["Metric"] == {
        "Namespace": "AWS/EC2",
        "MetricName": "EBSIOBalance%",
        "Dimensions": [{"Name": "InstanceId", "Value": "i-1"}],
    }


@pytest.mark.parametrize("metric", ["EBSIOBalance%", "EBSByteBalance%"])
def test_a_balance_of_an_instance_is_a_percentage_too(metric):
    client = PagedCloudWatch({"MetricDataResults": [result(values=[250.0], clocks=["11:58"])]})
    assert read_one(client, MetricQuery("i-1", metric, "Minimum", "InstanceId")).code == "ImplausibleValue"


class RejectingCloudWatch(FakeCloudWatch):
    """Rejects every call that contains a bad query."""

    def __init__(self, bad, code="ValidationError"):
        super().__init__()
        self.bad = bad
        self.code = code

    def get_metric_data(self, **request):
        answer = super().get_metric_data(**request)
        if any(queried_volume_id(query) in self.bad for query in request["MetricDataQueries"]):
            raise refusal(self.code)
        return answer


@pytest.mark.parametrize(
    ("bad", "most_calls"),
    [
        (set(), 1),
        ({"vol-0"}, 19),  # 500 halved 9 times is one: each halving costs two calls, and one for the whole
        ({"vol-250"}, 19),
        ({"vol-1", "vol-200", "vol-499"}, 53),
    ],
)
def test_a_bad_query_is_singled_out_and_hides_no_other(bad, most_calls):
    client = RejectingCloudWatch(bad)
    results = CloudWatchReader(client, sleep=lambda _: None).read(balances_of(500), *SPAN)
    assert {query.resource_id for query in results.unread} == bad
    assert len(results.series) == 500 - len(bad)
    assert len(client.requests) <= most_calls


def test_when_every_query_is_bad_the_search_is_given_up():
    client = RejectingCloudWatch({f"vol-{nth}" for nth in range(500)})
    results = CloudWatchReader(client, sleep=lambda _: None).read(balances_of(500), *SPAN)
    assert len(results.unread) == 500
    assert len(client.requests) <= 64 + 9  # the budget, and what was left to try when it ran out


@given(st.sets(st.integers(0, 79), max_size=6), st.integers(1, 80))
@settings(deadline=None)
def test_every_query_is_read_or_unread_whichever_are_bad(bad, number):
    client = RejectingCloudWatch({f"vol-{nth}" for nth in bad})
    results = CloudWatchReader(client, sleep=lambda _: None).read(balances_of(number), *SPAN)
    assert {query.resource_id for query in results.unread} == client.bad & {
        f"vol-{nth}" for nth in range(number)
    }
    assert len(results.series) + len(results.unread) == number


def test_a_throttled_batch_is_unread_alone_and_not_taken_apart():
    client = RejectingCloudWatch({"vol-7"}, code="Throttling")
    results = CloudWatchReader(client, sleep=lambda _: None).read(balances_of(600), *SPAN)
    assert (len(results.series), len(results.unread)) == (100, 500)
    assert len(client.requests) == 2
    assert results.unread[balance_of("vol-7")].kind is FailureKind.RETRYABLE


def test_a_refusal_names_what_to_grant():
    client = RejectingCloudWatch({"vol-1"}, code="AccessDenied")
    assert "grant cloudwatch:GetMetricData" in str(read_one(client))


def test_a_token_that_comes_twice_makes_the_batch_unread():
    page = {"MetricDataResults": [result()], "NextToken": "t"}
    assert "came twice" in str(read_one(PagedCloudWatch(page, page)))


def test_batches_are_read_side_by_side():
    together = Barrier(3, timeout=60)

    class Waiting(FakeCloudWatch):
        def get_metric_data(self, **request):
            together.wait()
            return super().get_metric_data(**request)

    reader = CloudWatchReader(Waiting(), workers=3, sleep=lambda _: None)
    assert len(reader.read(balances_of(1500), *SPAN).series) == 1500


def test_batches_come_as_they_are_answered_and_queries_are_taken_as_they_are_needed():
    requested = count()
    queries = (balance_of(f"vol-{next(requested)}") for _ in range(100_000))
    batches = CloudWatchReader(FakeCloudWatch(), workers=1, sleep=lambda _: None).read_batches(queries, *SPAN)
    assert len(next(batches).series) == 500
    batches.close()
    assert next(requested) <= 2 * 500  # at most two batches under way for each worker


def test_an_unexpected_error_is_not_swallowed():
    class Buggy:
        def get_metric_data(self, **_):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CloudWatchReader(Buggy()).read([balance_of()], *SPAN)


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.mark.parametrize(
    ("minutes", "number", "expected_s"),
    [
        # 500 queries x 30 minutes = 15,000 datapoints: 0.1 s at 150,000 a second; the first goes at once.
        (30, 5_000, 0.9),
        # 500 x 1 = 500 datapoints would be 3 ms: the limit of 50 calls a second, 20 ms, comes first.
        (1, 5_000, 0.18),
        (30, 500, 0.0),
    ],
)
def test_calls_are_paced_to_what_aws_allows_an_account(minutes, number, expected_s):
    time = FakeTime()
    reader = CloudWatchReader(FakeCloudWatch(), workers=1, monotonic=time.monotonic, sleep=time.sleep)
    reader.read(balances_of(number), END_S - 60 * minutes, END_S)
    assert time.now_s == pytest.approx(expected_s)


def test_over_the_wire_throttling_is_waited_out_by_the_client_and_every_request_counts(monkeypatch):
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    points = {"Timestamps": [at("11:57"), at("11:58")], "Values": [99.5, 98], "StatusCode": "Complete"}

    def answer(nth, _):
        if nth == 0:
            return json_answer({"__type": "Throttling", "message": "Rate exceeded"}, 400)
        return json_answer({"MetricDataResults": [{"Id": "m0", **points}, {"Id": "m1", **points}]})

    with loopback_aws(answer) as aws:
        client, counter = aws.client("cloudwatch", attempts=3), CallCounter()
        botocore_hooks.install_hooks(client)
        counter.attach(client)
        results = CloudWatchReader(client).read(balances_of(2), *SPAN)
    assert results.series[balance_of("vol-1")] == Series((int(at("11:57")), int(at("11:58"))), (99.5, 98.0))
    assert (counter.calls, counter.metrics_requested) == ({"cloudwatch:GetMetricData": 2}, 2)


@pytest.mark.parametrize(
    "bad_result",
    [
        None,
        "m0",
        {"Id": "m0", "StatusCode": "Complete", "Timestamps": None, "Values": [1.0]},
        {"Id": "m0", "StatusCode": "Complete", "Timestamps": ["noon"], "Values": [1.0]},
        {"Id": "m0", "StatusCode": "Complete", "Timestamps": [float("nan")], "Values": [1.0]},
        {"Id": "m0", "StatusCode": "Complete", "Timestamps": [10**30], "Values": [1.0]},
        {"Id": "m0", "StatusCode": "Complete", "Timestamps": [START_S], "Values": [True]},
        {"Id": "m0", "StatusCode": "\x1b[31m" * 500, "Messages": [None, {"Value": "x" * 5_000}]},
    ],
)
def test_an_invalid_result_is_unread_and_the_other_is_read(bad_result):
    good = result("m1", [50.0], ["11:58"])
    results = CloudWatchReader(PagedCloudWatch({"MetricDataResults": [bad_result, good]})).read(
        balances_of(2), *SPAN
    )
    bad_query, good_query = balances_of(2)
    assert results.series[good_query].values == (50.0,)
    assert str(results.unread[bad_query]).isprintable()
    assert len(str(results.unread[bad_query])) < 1_000
