"""tags.md: every tag that burstwatch reads."""

from burstwatch.core import tag_keys
from burstwatch.core.ebs.volume_types import TYPE_LIMITS
from burstwatch.core.policy.policy import Mode
from documents.reference.markdown import page, paragraph, require_same_keys, table

_MODES = ", ".join(f"`{mode}`" for mode in Mode)
_TAGS = {
    tag_keys.MODE: (
        _MODES,
        (
            "what the watchdog may do: record only; alert with the command to run; flip the volume. Never"
            " more than `mode.highest` of the policy, and `auto` only with the policy's `mode.opt_in_tag`"
        ),
        "treated as `mode.default` of the policy",
    ),
    tag_keys.CRITICAL: (
        "`true`, `false`",
        "the volume must not depend on burst credits: an alert at once, and in `auto` a permanent flip",
        "treated as `false`",
    ),
    tag_keys.IGNORE: ("`true`, `false`", "the volume is not watched at all", "treated as `false`"),
    tag_keys.TARGET: (
        ", ".join(f"`{target}`" for target in TYPE_LIMITS),
        "the type to flip to, in place of `flip.target` of the policy",
        "treated as not given",
    ),
    tag_keys.IOPS: (
        "a whole number",
        "the IOPS of the target; `flip.tag_cap_usd_per_month` limits what that may cost",
        "treated as not given",
    ),
    tag_keys.THROUGHPUT: (
        "a whole number",
        "the throughput of a gp3 target in MiB/s; the same cap applies",
        "treated as not given",
    ),
    tag_keys.WINDOW: (
        "names, with commas or spaces between",
        "the windows of the policy in which the volume is kept flipped",
        "a name that the policy does not define has no effect until a window of that name is started",
    ),
}


def tags_page() -> str:
    """The page."""
    require_same_keys(_TAGS, tag_keys.KNOWN, "tags")
    rows = [(f"`{key}`", *_TAGS[key]) for key in _TAGS]
    return page(
        "# Tags",
        paragraph(
            "Tags on a volume decide what burstwatch does with it. Keys and values are matched exactly. An"
            " invalid value is reported with the volume, and so is an unknown key that begins with"
            " `burstwatch:`."
        ),
        table(("Tag", "Values", "Effect", "Invalid value"), rows),
        paragraph(
            "Another tag may take the place of `burstwatch:mode=auto`: see"
            " [`mode.opt_in_tag`](policy.md#modeopt_in_tag). Anyone who may set these tags may spend money"
            " and may disable protection: [who may tag](../deploying.md#who-may-tag)."
        ),
    )
