"""What may come from outside, and what must hold of whatever is made of it."""

import os
import unicodedata
from contextlib import contextmanager
from time import process_time

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))
"""How many times the usual examples are tried: ``make fuzz`` says."""

LONGEST_MESSAGE = 1_000
"""No message about one bad thing needs more; what names every fault has its own limit."""

OWN_TAGS = tuple(
    f"burstwatch:{word}"
    for word in ("mode", "target", "iops", "throughput", "critical", "window", "ignore", "Mode", "nonsense")
)
KNOWN_TAGS = (
    *OWN_TAGS,
    "Name",
    "kubernetes.io/created-for/pvc/name",
    "kubernetes.io/created-for/pvc/namespace",
    "aws:cloudformation:stack-name",
    "aws:eks:cluster-name",
    "elasticbeanstalk:environment-name",
)

HOSTILE_TEXTS = (
    "",
    " ",
    "\n",
    "\x00",
    "\x07\x1b]0;owned\x07",
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x9b31m",
    "a\r\nb\tc",
    "\u202eevil\u202c",
    "\u2066x\u2069",
    "\u200b\u200d\ufeff",
    "\ud800",
    "e" + "\u0301" * 200,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\ufdfd" * 60,
    "漢字" * 100,
    "<!channel> <@U012AB3CD> @here",
    "<https://evil.example|click>",
    "*bold* _i_ ~s~ `code` ```block```",
    '&amp; <script>alert(1)</script> "><img src=x onerror=alert(1)>',
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "{{7*7}} {% raw %} ${jndi:ldap://x}",
    "%s%n%d {0} {x!r}",
    'a"b\\c\nd',
    "'; DROP TABLE states; --",
    "x" * 256,
    "[red]rich[/red] [link=file:///etc/passwd]x[/link]",
    "true",
    "auto",
    "1e309",
    "-1",
    "\uff19\uff19",
    "9" * 400,
    "NaN",
)
"""Texts that have hurt other programs."""

texts = st.one_of(st.sampled_from(HOSTILE_TEXTS), st.text(max_size=40), st.text(st.characters(), max_size=8))

NUMBERS = (
    *(0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.0, 0.5, 1e-320, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(NUMBERS),
    st.integers(),
    st.floats(),
    texts,
    st.sampled_from(
        [
            "2026-11-20T12:00:00Z",
            "2026-11-20T12:00:00",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
        ]
    ),
)

any_value = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
"""Whatever JSON can say, and more."""


def fuzz(examples, **options):
    """Settings of a test that is tried so often, and ``make fuzz`` many times more, with other examples."""
    return settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
        **options,
    )


@st.composite
def mutated(draw, document, *, most=3):
    """The document with a few of its parts left out, given twice, or replaced by whatever."""
    result = _copy(document)
    for _ in range(draw(st.integers(0, most))):
        result = _mutate(draw, result)
    return result


def _copy(value):
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list | tuple) else value


def _mutate(draw, value):
    """Go down one branch and change something there."""
    descends = isinstance(value, dict | list) and value and draw(st.integers(0, 4)) > 0
    if not descends:
        return draw(any_value)
    key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    match draw(st.integers(0, 4)):
        case 0:
            value.pop(key)
        case 1 if isinstance(value, list):
            value.insert(key, _copy(value[key]))
        case 2 if isinstance(value, dict):
            value[draw(texts)] = draw(any_value)
        case _:
            value[key] = _mutate(draw, value[key])
    return value


@st.composite
def mangled_bytes(draw, content: bytes):
    """Bytes with a few of them flipped, cut out, doubled, or strangers put in."""
    result = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(result)))
        many = draw(st.integers(0, 16))
        match draw(st.integers(0, 3)):
            case 0:
                result[place : place + many] = draw(st.binary(max_size=16))
            case 1:
                result[place:place] = result[place : place + many] * draw(st.integers(1, 4))
            case 2:
                del result[place : place + many if many else len(result)]
            case 3:
                result[place : place + 1] = draw(
                    st.sampled_from([b"\x00", b"\x1b[31m", b"\xff", b"\n", b" "])
                )
    return bytes(result)


def is_plain(text: str) -> bool:
    """Whether nothing in it acts on a terminal instead of showing; line ends are its author's."""
    return not any(
        unicodedata.category(item) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for item in text.replace("\n", "")
    )


def assert_message(text: str, *, most: int = LONGEST_MESSAGE) -> None:
    """A message for people: something is said, all of it is safe to show, and it has an end."""
    assert text.strip()
    assert is_plain(text), repr(text)
    assert len(text) <= most, f"{len(text)} characters: {text[:200]!r}…"
    assert "Traceback (most recent call last)" not in text


@contextmanager
def within(seconds):
    """Bounded work: by the processor's time, which busy neighbours do not change."""
    started_at_s = process_time()
    yield
    used_s = process_time() - started_at_s
    assert used_s < seconds, f"it took {used_s:.1f} s of processor, more than {seconds} s"
