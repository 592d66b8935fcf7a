"""The file of a run, as this version and earlier ones have written it."""

import json

from burstctl.aws_check.run_file import RunFile, read_run


def test_a_file_of_an_earlier_version_with_the_unused_host_at_s_is_read(tmp_path):
    path = tmp_path / "aws-check-1.json"
    run = RunFile(path=path, run_id="1", region="us-east-1", account="1", begun_s=5.0, facts=["tag-filter"])
    run.save()
    document = json.loads(path.read_text())
    assert "host_at_s" not in document

    path.write_text(json.dumps(document | {"host_at_s": None}))

    assert read_run(path) == run
