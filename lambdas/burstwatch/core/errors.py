class BurstwatchError(Exception):
    """Something we did not expect; its message names the value, the limit and the next step."""


class LedgerError(BurstwatchError):
    """The ledger cannot be used; what it held before the failed call, it still holds."""
