from collections.abc import Iterator

import pytest

from support.aws.in_process_http import call_lab_in_process


@pytest.fixture(scope="module", autouse=True)
def lab_without_sockets() -> Iterator[None]:
    """A third of the processor time of these tests was the socket between two threads of one process."""
    with pytest.MonkeyPatch.context() as patch:
        call_lab_in_process(patch)
        yield
