"""``burstctl advise``: what each volume should be for good."""

import click

from burstctl.advice_words import tell_about, volume_in_words, without_terminal
from burstctl.advising import MOST_USD, Advised, Request, give_advice
from burstctl.command import Command, Options, VolumeId, common_options
from burstctl.desk import reading_desk
from burstctl.exits import Exit
from burstctl.output import show, to_json
from burstctl.sheets import to_csv, to_document
from burstwatch.core.iac import IacKind, definition

MOST_DAYS = 62
