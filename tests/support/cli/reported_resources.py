"""Resources that are on a page."""

CALM_INSTANCE = "i-0123456789abcdef1"


HOME, DRAINED, ELASTIC = (f"fs-0123456789abcdef{number}" for number in range(3))
