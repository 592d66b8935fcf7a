"""Write docs/reference: ``python -m documents.reference``; `make reference` runs this."""

from documents.reference.pages import FOLDER, build_pages

if __name__ == "__main__":
    for name, text in build_pages().items():
        (FOLDER / name).write_text(text)
