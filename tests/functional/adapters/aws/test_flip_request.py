import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstwatch.adapters.aws.flip_request import FlipRequest, MalformedRequestError
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from support.builders.flip_requests import REQUESTED_AT_S, a_request

REQUESTS = st.builds(
    FlipRequest,
    volume_id=st.from_regex(r"vol-[0-9a-f]{8,17}", fullmatch=True),
    direction=st.sampled_from(Direction),
    cause=st.sampled_from(FlipCause),
    because=st.text(),
    requested_at_s=st.integers(0, 4_000_000_000),
).filter(lambda request: (request.direction, request.cause) != (Direction.FLIP, FlipCause.MANUAL))


@settings(max_examples=300, deadline=None)
@given(REQUESTS)
def test_a_request_comes_out_as_it_went_in(request):
    body = request.to_body()
    assert body.isascii()
    assert FlipRequest.from_body(body) == request


NO_DEMAND = {"peak_iops": None, "peak_throughput_mib_s": None, "pinned": False, "ahead": False}


def test_the_body_is_the_documented_one():
    assert json.loads(a_request().to_body()) == {
        "schema": "burstwatch.flip_request/v1",
        "time": "2026-11-20T18:00:35Z",
        "volume_id": "vol-00000000000000001",
        "direction": "out",
        "cause": "draining",
        "because": "dry in 11 min",
        "demand": NO_DEMAND,
        "urgency": [],
    }


def test_what_the_contract_names_is_enough():
    document = json.loads(a_request().to_body())
    del document["demand"], document["urgency"]
    assert FlipRequest.from_body(json.dumps(document)) == a_request()


def test_a_request_of_an_older_watch_function_is_accepted_without_its_demand():
    older = {
        "schema": "burstwatch.flip_request/v1",
        "time": "2026-11-20T18:00:35Z",
        "volume_id": "vol-00000000000000001",
        "direction": "out",
        "cause": "draining",
        "because": "dry in 11 min",
        "demand": {**NO_DEMAND, "peak_iops": 39_000.0, "pinned": True},
        "urgency": [-4, 715.0, {"float": "inf"}, 31.5, "vol-00000000000000001"],
        "revision": 185369513038622,
        "by": "watchdog",
        "overridden": [],
    }
    assert FlipRequest.from_body(json.dumps(older)) == a_request()


# Poison

VALID_BODY = json.loads(a_request().to_body())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "burstwatch.flip_request/v2"}, '/v2" is not burstwatch.flip_request/v1'),
        ({"volume_id": 7}, "'volume_id': 7 is not a valid volume ID"),
        ({"volume_id": "i-0123"}, "is not a valid volume ID"),
        ({"volume_id": "vol-0123"}, "is not a valid volume ID"),
        ({"volume_id": "vol-0123456789abcdef0\n"}, "is not a valid volume ID"),
        ({"direction": "up"}, "'direction': \"up\" is not one of out, back"),
        ({"cause": ["draining"]}, "'cause': [\"draining\"] is not one of draining, window"),
        ({"because": None}, "'because': null is not a text"),
        ({"time": "2026-11-20T18:00:35"}, "'time': \"2026-11-20T18:00:35\" is not a valid time"),
        ({"time": "<aws.scheduler.scheduled-time>"}, "is not a valid time such as 2026-11-20T18:00:00Z"),
        ({"time": 1}, "is not a valid time"),
        ({"extra": 1}, '"extra" is not known'),
        ({"demand": "all of it"}, "'demand': \"all of it\" is not a demand"),
        ({"demand": {"peak_iops": 39_000}}, "is not a demand"),
        ({"demand": NO_DEMAND | {"peak_iops": -1}}, "is not a demand"),
        ({"demand": NO_DEMAND | {"peak_throughput_mib_s": True}}, "is not a demand"),
        ({"demand": NO_DEMAND | {"pinned": 0}}, "is not a demand"),
        ({"demand": NO_DEMAND | {"target": "io2"}}, "is not a demand"),
        ({"urgency": [-4]}, "'urgency': [-4] is not an urgency"),
        ({"urgency": 0}, "is not an urgency"),
        ({"urgency": [1, 2, 3, 4, "x" * 99]}, "is not an urgency"),
        ({"urgency": [1, 2, {"float": "nan"}, 4, "vol-00000000000000001"]}, "is not an urgency"),
        ({"revision": -1}, "'revision': -1 is not a revision"),
        ({"revision": True}, "is not a revision"),
        ({"revision": 1.5}, "is not a revision"),
    ],
)  # fmt: skip
def test_poison_is_refused_by_name(changes, message):
    with pytest.raises(MalformedRequestError, match="not a flip request") as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | changes))
    assert message in str(exc_info.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"by": "mallory"}, '\'by\': "mallory" is not "watchdog"'),
        ({"overridden": ["held"]}, "'overridden': [\"held\"] is not []"),
        ({"wish": {"volume_type": "io2", "iops": 60_000, "throughput_mib_s": None}}, '"wish" is not known'),
        ({"return_after_s": 1}, '"return_after_s" is not known'),
        ({"why": "because"}, '"why" is not known'),
        ({"extends": True}, '"extends" is not known'),
        ({"cause": "by_hand"}, "by_hand is never requested through the queue"),
    ],
)
def test_what_only_a_person_may_order_is_poison(changes, message):
    with pytest.raises(MalformedRequestError, match="not a flip request") as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | changes))
    assert message in str(exc_info.value)


def test_the_return_of_what_a_person_flipped_is_requested_by_the_watchdog():
    request = a_request(direction=Direction.FLIP_BACK, cause=FlipCause.MANUAL)
    assert FlipRequest.from_body(request.to_body()) == request


@pytest.mark.parametrize(
    "body",
    [
        *("", "flip it", "null", "[]", "7", '"x"', "{}", '{"time": NaN}', "\ud800"),
        "[" * 100_000,
        '{"a": 1' + "0" * 5000 + "}",
    ],
)
def test_an_invalid_request_is_poison(body):
    with pytest.raises(MalformedRequestError, match="not a flip request"):
        FlipRequest.from_body(body)


@pytest.mark.parametrize(
    ("addition", "key"),
    [
        (', "direction": "back"}', "direction"),
        (', "time": "2026-11-20T18:00:35Z"}', "time"),
        (', "revision": 1, "revision": 1}', "revision"),
        (', "by": {"a": 1, "a": 1}}', "a"),
    ],
)
def test_a_key_that_occurs_twice_is_poison(addition, key):
    with pytest.raises(MalformedRequestError, match=f'not a flip request.*"{key}" occurs more than once'):
        FlipRequest.from_body(a_request().to_body().removesuffix("}") + addition)


def test_everything_that_is_wrong_is_named_at_once():
    with pytest.raises(MalformedRequestError) as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | {"direction": 1, "cause": 2, "more": 3}))
    assert str(exc_info.value).count(";") == 2


def test_long_poison_is_cut():
    with pytest.raises(MalformedRequestError) as exc_info:
        FlipRequest.from_body(json.dumps(VALID_BODY | {"direction": "x" * 10_000}))
    assert len(str(exc_info.value)) < 300


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
    st.sampled_from(sorted(VALID_BODY)),
)
def test_invalid_json_is_only_poison(value, key):
    for document in (value, VALID_BODY | {key: value}):
        with suppress(MalformedRequestError):
            assert FlipRequest.from_body(json.dumps(document)).volume_id


# Repeats


def test_a_repeated_tick_adds_nothing_and_a_minute_later_it_is_a_new_request():
    first = a_request(requested_at_s=REQUESTED_AT_S - 35)
    assert a_request(requested_at_s=REQUESTED_AT_S).deduplication_id == first.deduplication_id
    different = [
        a_request(requested_at_s=REQUESTED_AT_S + 60),
        a_request(2),
        a_request(direction=Direction.FLIP_BACK),
    ]
    assert len({item.deduplication_id for item in [first, *different]}) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {f"k{n}": 1 for n in range(1_000)},
        {"volume_id": "vol-" + "x" * 100},
        {"time": "0001-01-01T00:00:00+14:00"},
        {"by": "x" * 1_000},
        {"because": "x" * 100_000},
    ],
)
def test_poison_is_reported_in_a_short_sentence(changes):
    body = json.dumps(json.loads(a_request().to_body()) | changes)
    with pytest.raises(MalformedRequestError, match="not a flip request") as exc_info:
        FlipRequest.from_body(body)
    assert len(str(exc_info.value)) < 1_000
