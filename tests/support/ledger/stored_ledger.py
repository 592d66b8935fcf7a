"""A ledger at rest, to be damaged."""


class StoredLedger:
    """Where to damage a ledger, and its bytes while it is whole."""

    def __init__(self, path, good):
        self.path, self.good = path, good

    def __iter__(self):
        return iter((self.path, self.good))
