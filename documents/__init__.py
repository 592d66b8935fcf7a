"""The JSON documents that burstwatch prints and sends, as types.

Type checkers read them; what runs does not import them. ``python -m documents.generate`` writes docs/schemas
from them. A class's docstring and those of its keys become the descriptions; of a document, the first line
becomes the title. ``python -m documents.reference`` writes the pages in docs/reference.
"""
