import pytest

from support.bench_loader import prose


@pytest.fixture(scope="module")
def word_list():
    return prose.word_list()
