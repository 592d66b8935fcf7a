"""What a policy's values are written like."""

from enum import StrEnum

import pytest

from burstwatch.core.policy.parsing import choice_parser, parse_pct


class Fruit(StrEnum):
    APPLE = "apple"
    PEAR = "pear"
    PLUM = "plum"


def test_a_choice_is_one_of_its_words_and_the_error_for_anything_else_lists_them_all():
    parse = choice_parser("a fruit", *Fruit)
    assert parse("pear") is Fruit.PEAR
    with pytest.raises(ValueError, match=r"^'nut' is not a fruit; write apple, pear or plum$"):
        parse("nut")


@pytest.mark.parametrize(("text", "pct"), [("0", 0.0), ("99.5", 99.5), ("100", 100.0)])
def test_a_percentage_goes_from_0_to_100(text, pct):
    assert parse_pct(text) == pct


@pytest.mark.parametrize("text", ["100.1", "101", "-1", "95%", ""])
def test_anything_else_is_not_a_percentage(text):
    with pytest.raises(ValueError, match="is not a percentage; write a number from 0 to 100"):
        parse_pct(text)
