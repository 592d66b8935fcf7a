"""How to install the extra `pictures`, for messages where its packages are missing."""

from importlib.metadata import version


def install_pictures() -> str:
    """The end of a sentence: both ways, of which neither names a package index."""
    wheel = f"./burstwatch-{version('burstwatch')}-py3-none-any.whl"
    return f"install the extra 'pictures': pip install '{wheel}[pictures]', or '.[pictures]' in a checkout"
