"""A file that somebody named to be written."""

from pathlib import Path

from burstctl.cli.atomic_file import write_atomically


def test_a_private_file_is_private_from_its_first_byte_on(tmp_path, monkeypatch):
    """Nothing is narrowed afterwards: for a moment others could open it."""
    report = tmp_path / "report.html"
    report.write_text("old")
    report.chmod(0o600)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    write_atomically(report, b"new")
    assert (report.read_bytes(), report.stat().st_mode & 0o777) == (b"new", 0o600)


def test_the_mode_of_a_file_that_is_replaced_stays(tmp_path):
    report = tmp_path / "report.html"
    report.write_text("old")
    report.chmod(0o666)
    write_atomically(report, b"new")
    assert report.stat().st_mode & 0o777 == 0o666
