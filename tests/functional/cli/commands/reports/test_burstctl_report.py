"""burstctl report: what it reads, what it writes where, and what it says about it."""

import json
import os
import re
import stat
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from html import unescape
from pathlib import Path
from threading import Thread

import pytest

from burstctl.report import collect
from burstlab.fake_aws.faults import Fault
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_volume,
    add_warning,
    count_modify_calls,
)

pytestmark = pytest.mark.lab_settings(modify_spread=0.0)


AUTO = {"burstwatch:mode": "auto"}


def data_of(page):
    """What the page's script reads."""
    result = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL
    )
    return json.loads(result[1])


def visible_text(page):
    """What the page says without its script, on one line."""
    text = re.sub(r"<(script|style|symbol)\b.*?</\1>", " ", page.read_text(), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def row_of(data, volume_id):
    at = data["volumes"]["id"].index(volume_id)
    return {name: column[at] for name, column in data["volumes"].items()}


def test_it_writes_one_page_that_needs_no_other_file(cli, lab, page):
    add_critical(lab)
    add_calm(lab)

    result = cli.run("report", "--html", page)

    assert result.code == 0
    assert result.out == ""
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert unescape(policy).startswith("default-src 'none'; style-src 'sha256-")
    assert re.findall(r'(?:src|srcset|action|data)="', text) == []
    assert set(re.findall(r'\shref="([^"#][^"]*)"', text)) == set()
    assert "unsafe" not in policy
    [output] = [line for line in result.err.splitlines() if line.startswith(f"{page}: ")]
    assert re.search(
        r": 2 volumes on 0\.\d\d MB; \d+ calls to AWS, \d+ metrics read for \$0\.000\d+$", output
    )


def test_report_only_reads(cli, lab, page):
    add_critical(lab, tags=AUTO)
    cli.run("report", "--html", page)
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.exists()
    assert set(lab.faults.call_counts()) == {
        "DescribeVolumes",
        "DescribeVolumesModifications",
        "GetMetricData",
        "GetParametersByPath",
        # without a policy, the kinds that the caller may read
        "DescribeInstances",
        "DescribeInstanceTypes",
        "DescribeFileSystems",
        "DescribeDBInstances",
    }


def test_the_urgent_are_reported_first_with_what_to_do(cli, lab, page):
    add_calm(lab, "web-1")
    add_warning(lab)
    critical, exhausted = add_critical(lab), add_exhausted(lab)

    cli.run("report", "--html", page)

    page_text = visible_text(page)
    assert "1 volume is empty, 2 more will be empty soon" in page_text
    assert "Next: ci-7, empty in 10 min (18:10), not before 18:10 UTC" in page_text
    places = [page_text.index(f" {name} ") for name in ("etcd-1", "ci-7", "build-3")]
    assert places == sorted(places)
    assert f"burstctl flip {critical} --region us-east-1 --to gp3" in page_text
    data = data_of(page)
    assert data["volumes"]["id"][:2] == [exhausted, critical]
    assert data["volumes"]["level"] == ["exhausted", "critical", "warning", "ok"]
    facts = dict(data["details"][critical]["facts"])
    assert facts["Why"] == "at this pace it is empty within 15 min"
    assert facts["Reading"] == "1,782,000 credits, 60 s old"


def test_each_volume_has_its_balance_over_the_time_requested_and_gaps_stay_gaps(cli, lab, page):
    volume_id = add_critical(lab)
    cli.run("report", "--html", page, "--last", "1h")
    data = data_of(page)
    # by the minute: 96 % from 17:38 on, 3 % less each minute; nothing before it was made
    assert data["axis"][1:] == [60, 60]
    row = row_of(data, volume_id)
    assert row["balance"] == 33.0
    assert row["line"].startswith("x38,")
    details = data["details"][volume_id]
    assert details["axis"][1] == 60
    assert details["balance"].split(",")[1:4] == ["930", "900", "870"]
    assert "3000" in details["iops"]
    assert details["fan"]["about"] - data["now"] == 600
    assert [text for *_, text in details["absent"]] == ["no datapoint"]


def test_calm_volumes_cost_one_metric_each_and_those_that_matter_three(cli, lab, page, monkeypatch):
    monkeypatch.setattr(collect, "MAX_DETAILED", 2)
    for nth in range(5):
        add_calm(lab, f"web-{nth}")
    add_critical(lab)
    document = cli.run("report", "--html", page, "--json").document
    # one look: 6 balances and 2 for the operations of the critical; then 2 volumes by 3, 4 by 1
    assert document["cost"]["metrics_requested"] == 6 + 2 + 2 * 3 + 4 == lab.metrics_requested
    assert document["cost"]["usd"] == pytest.approx(0.00018)
    assert document["told_at_length"] == 2
    assert data_of(page)["volumes"]["name"][0] == "ci-7"
    assert len(data_of(page)["details"]) == 2
    assert "2 volumes that matter most" in visible_text(page)


def test_what_the_watchdog_did_and_refused_is_reported_with_its_reason_and_its_money(cli, lab, page):
    flipped = add_critical(lab, tags={**AUTO, "burstwatch:target": "io1"})
    held = add_critical(lab, "db-2", tags=AUTO)
    cli.run(
        "hold", held, "--for", "6h", "--reason", "audit snapshot", "--ledger", f"sqlite:{cli.ledger_path}"
    )
    cli.run("watch", "--act", "--once")
    lab.fleet.set_load(flipped, "idle")
    for _ in range(3):
        lab.clock.advance(2400)
        cli.run("watch", "--act", "--once")
    lab.clock.advance(2400)
    cli.run("watch", "--act", "--once")
    lab.clock.advance(3600)

    document = cli.run("report", "--html", page, "--json").document

    page_text = visible_text(page)
    for part in (
        "was not flipped to gp3: held",
        "Refused: it is on hold by anna (user/moto): audit snapshot.",
        "is being modified to io1 with",
        "is gp2 again, as before",
        "put on hold for",
    ):
        assert part in page_text
    assert document["deeds"]["refused"] >= 1
    assert document["deeds"]["flipped"] >= 2
    assert document["deeds"]["returned"] >= 2
    money = document["money"]
    row = r"(\d\d:\d\d) UTC \d\d Nov 2026, (\d\d:\d\d) UTC ([+-][\d.,]+) ([+-][\d.]+)"
    [(began, ended, per_month, usd)] = re.findall(row, page_text)
    assert (began, ended) == ("18:00", "20:00")
    # two hours of what a month of 730 hours costs; and for the 100 minutes since, as much a minute
    paid = float(per_month.replace(",", "")) / 730 * 2
    assert money["flips_usd"] == pytest.approx(paid, abs=1e-3) == pytest.approx(float(usd), abs=1e-3)
    assert money["saved_by_returning_usd"] == pytest.approx(paid * 100 / 120, rel=1e-3)
    assert money["saved_on_cheaper_targets_usd"] == 0
    letters = data_of(page)["details"][flipped]["history"]
    assert {"F", "T", "B", "G"} <= {letter for _, letter, *_ in letters}


def test_a_stay_on_gp3_that_costs_less_has_saved_what_it_cost_less(cli, lab, page):
    # 100 GiB: gp3 with 3,000 IOPS and 128 MiB/s is 8.12 a month, gp2 10.00
    volume_id = add_lab_volume(lab, "steady", "steady:290", size_gib=100)
    cli.run(
        "flip", volume_id, "--to", "gp3", "--iops", "3000", "--throughput", "128", "--yes", "--reason", "x"
    )
    lab.clock.advance(36_000)
    cli.run("watch", "--once")
    money = cli.run("report", "--html", page, "--json").document["money"]
    page_text = visible_text(page)
    assert "Volume Moved to Since Until $/month vs gp2 $ in this time" in page_text
    assert "still there -1.88" in page_text
    assert money["flips_usd"] == 0
    assert money["saved_on_cheaper_targets_usd"] == pytest.approx(1.88 / 730 * 10, abs=1e-4)
    assert "Saved $0.03 in that time: targets that cost less" in visible_text(page)


def test_possible_savings_are_reported_apart_from_actual_ones(cli, lab, page):
    add_calm(lab)
    cli.run("report", "--html", page)
    # gp2 of 100 GiB 10.00, gp3 with 128 MiB/s 8.12
    assert "Not saved yet: $1.88 a month for 1 of 1 gp2 volume. They would cost less" in visible_text(page)
    assert "Saved" not in visible_text(page)


def test_the_file_is_replaced_as_a_whole_or_not_at_all(cli, lab, page):
    add_critical(lab)
    page.write_text("the old one")
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation", status=403))
    result = cli.run("report", "--html", page)
    assert result.code == 1
    assert page.read_text() == "the old one"
    assert "no page was written, and " in result.err
    assert [path.name for path in page.parent.iterdir() if page.name in path.name] == [page.name]


def test_an_unwritable_path_is_detected_before_any_work(cli, lab, tmp_path):
    for place, why in (
        (tmp_path, "is a directory.\n  fix: name a file in it"),
        (tmp_path / "nowhere" / "fleet.html", "there is no directory"),
    ):
        result = cli.run("report", "--html", place)
        assert result.code == 2
        assert why in result.err
        assert len(result.error_lines) == 1
    assert lab.faults.call_counts() == {}


def test_interrupted_it_leaves_the_old_page_and_nothing_half_made(cli, lab, page, monkeypatch):
    add_calm(lab)
    page.write_text("the old one")
    write = Path.write_bytes

    def interrupted(path, content):
        write(path, content[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.write_bytes", interrupted)
    result = cli.run("report", "--html", page)
    assert result.code != 0
    assert page.read_text() == "the old one"
    assert [item.name for item in page.parent.iterdir() if item.is_file()] == [page.name]


def test_a_device_or_pipe_is_written_in_place(cli, lab, tmp_path):
    add_calm(lab)
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    result = cli.run("report", "--html", pipe)
    reader.join(timeout=60)
    assert result.code == 0
    assert read[0].startswith("<!DOCTYPE html>")
    assert pipe.is_fifo()


def test_a_page_keeps_its_place_behind_a_link_and_who_may_read_it(cli, lab, page, tmp_path):
    add_calm(lab)
    real = tmp_path / "real.html"
    real.write_text("the old one")
    real.chmod(0o600)
    page.symlink_to(real)
    assert cli.run("report", "--html", page).code == 0
    assert page.is_symlink()
    assert real.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_on_stdout_the_page_is_complete_whatever_the_encoding_of_the_terminal(cli, lab, page):
    add_calm(lab)
    result = cli.run_in_subprocess(
        "report", "--html", "-", env={"PYTHONIOENCODING": "ascii"}, encoding="utf-8"
    )
    assert result.code == 0
    style = re.search(r"<style>(.*?)</style>", result.out, re.DOTALL)[1]
    assert b64encode(sha256(style.encode()).digest()).decode() in unescape(result.out)


def test_a_page_that_cannot_be_finished_leaves_the_old_one(cli, lab, page, monkeypatch):
    add_calm(lab)
    page.write_text("the old one")

    def raise_disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", raise_disk_full)
    result = cli.run("report", "--html", page)
    assert result.code == 1
    assert result.error_lines == [
        f"error: {page} could not be written (No space left on device); the old content is unchanged."
    ]
    assert page.read_text() == "the old one"


def test_a_dash_means_stdout(cli, lab):
    add_calm(lab)
    result = cli.run("report", "--html", "-")
    assert result.code == 0
    assert result.out.startswith("<!DOCTYPE html>")
    assert result.out.rstrip().endswith("</html>")
    result = cli.run("report", "--html", "-", "--json")
    assert result.code == 2
    assert "both want stdout" in result.err


def test_a_page_is_as_public_as_any_new_file(cli, lab, page):
    add_calm(lab)
    cli.run("report", "--html", page)
    before = os.umask(0)
    os.umask(before)
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~before


def test_json_describes_the_page_and_not_the_volumes(cli, lab, page):
    add_critical(lab)
    document = cli.run("report", "--html", page, "--json", "--last", "6h").document
    assert document["schema"] == "burstwatch.page/v1"
    assert document["file"] == str(page)
    assert document["bytes"] == page.stat().st_size
    assert document["since"] == "2026-11-20T12:00:00Z"
    assert document["by_level"] == {"critical": 1}


def test_expensive_reads_need_confirmation(cli, lab, page, monkeypatch):
    monkeypatch.setattr(collect, "MAX_USD", 0.00002)
    add_critical(lab)
    result = cli.run("report", "--html", page)
    assert result.code == 2
    assert "need 3 metrics" in result.err
    assert "add --yes" in result.err
    assert not page.exists()
    assert cli.run("report", "--html", page, "--yes").code == 0


def test_an_unreadable_picture_hides_nothing_else(cli, lab, page):
    calm = add_calm(lab)
    unreadable = add_calm(lab, "lost")
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", status=403, every=2))
    result = cli.run("report", "--html", page)
    assert result.code == 1
    assert "cannot draw 2 volumes" in result.err
    data = data_of(page)
    assert row_of(data, calm)["balance"] == 100.0
    assert set(data["volumes"]["id"]) == {calm, unreadable}
    assert "Not read:" in visible_text(page)


def test_missing_data_is_a_fault_with_a_card(cli, lab, page):
    volume_id = add_lab_volume(lab, "mute", "steady:200", minutes=60)
    lab.fleet.hide_metrics(
        volume_id,
        from_at=lab.clock.now() - timedelta(hours=1),
        to_at=lab.clock.now() + timedelta(hours=1),
        only_balance=True,
    )
    cli.run("report", "--html", page)
    assert row_of(data_of(page), volume_id)["level"] == "fault"
    assert "Nothing is expected to be empty, but 1 has no data" in visible_text(page)


def test_an_empty_volume_in_modification_is_not_reported_as_safe(cli, lab, page):
    add_exhausted(lab, tags={"burstwatch:mode": "auto"})
    cli.run("watch", "--once", "--act")
    cli.run("report", "--html", page)
    assert "Nothing else is expected to be empty, but 1 is being changed" in visible_text(page)


def test_an_empty_region_is_a_page_as_well(cli, lab, page):
    result = cli.run("report", "--html", page)
    assert result.code == 0
    assert "Nothing will be empty" in visible_text(page)
    assert "0 volumes" in visible_text(page)


def test_report_accepts_no_longer_span_than_cloudwatch_keeps(cli, lab, page):
    for duration, code in (("59m", 2), ("63d", 2), ("1h", 0)):
        assert cli.run("report", "--html", page, "--last", duration).code == code


def test_names_are_escaped_in_the_page(cli, lab, page):
    add_critical(lab, '</script><script>alert("1")</script>', tags={"a": "</style>", "b": "<!--"})
    cli.run("report", "--html", page)
    text = page.read_text()
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "<!--" not in text
    assert text.count("</style") == 1


def test_without_the_libraries_for_pages_it_names_what_to_install(cli, lab, page, monkeypatch):
    monkeypatch.setattr("burstctl.report.page.find_spec", lambda name: None)
    result = cli.run("report", "--html", page)
    assert result.code == 2
    [text] = result.error_lines
    assert text == "error: --html needs jinja2, which is not installed here."
    assert "fix: install the extra 'pictures': pip install" in result.err
    assert "py3-none-any.whl[pictures]', or '.[pictures]' in a checkout" in result.err
    assert lab.faults.call_counts() == {}
