"""Record the pictures in docs: ``python -m documents.recordings``; `make recordings` runs this."""

from documents.recordings.scenes import FOLDER, build_recordings

if __name__ == "__main__":
    for name, picture in build_recordings().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")
