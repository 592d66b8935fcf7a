"""The check of prose and names finds what the project once wrote, and accepts ordinary technical English.

The sentences and names in ``FORMER_…`` are quoted from this repository at 66f6cb2.
"""

import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.bench_loader import CHECKS, load_check, prose

passages = load_check("passages")

FORMER_PROSE = [
    ("raise ValueError(f'{at_s} is no instant of this age')", "is no instant"),
    ('raise TypeError("what is no text cannot be told")', "is no text"),
    ('"""No volume that may be moved runs dry, or is told as dry."""', "runs dry"),
    ("# This is told once a day.", "told"),
    ('"""The account; None where it is not known."""', "None where"),
    ('raise ValueError("a number, or empty where nothing is known")', "empty where"),
    ('option("--for", help="Bring it back after so long, 1m to 30d.")', "so long"),
    ('option("--since", help="Only what happened in so long, such as 6h or 7d.")', "so long"),
]
FORMER_PAGES = [
    ("IAM matches its value exactly: whoever may tag decides.", "whoever"),
    ("**burstwatch knows when each volume will run dry before it does.**", "run dry"),
    ("AWS is asked for nothing, so what became of it is not known.", "what became of"),
    ("| [what it does](x.md) | what each volume should be for good |", "for good"),
    ("- ends when told to, and mends itself", "ends when told to"),
]
FORMER_NAMES = [
    "def test_means_of_five_minutes_are_told_to_hide_peaks(): ...",
    "class Teller:\n    def tell(self): ...",
    "def write(words): ...",
    "for each in volumes: ...",
    "this = 1",
    "class Wishes: ...",
]
FORMER_PHRASE = "is no text"
PLACES = [
    ("alerts.yaml", "description: >-\n  What {0}\n  {1}."),
    ("values.yaml", "mode: observe  # what {}"),
    ("values.yml", 'note: "What {}."'),
    ("alerts.yaml", "note: |\n  What {0}\n  {1}."),
    ("Makefile", "# what {} is left out\nall:\n\ttrue"),
    ("Makefile", "all:\n\t@echo 'What {} is left out'"),
    ("pyproject.toml", 'ignore = [\n  "T201",  # what {} is left out\n]'),
    ("page.js", "const text = `${value}; what {} is left out.`;"),
    ("page.js", "// what {0}\n// {1}\nrun();"),
    ("page.js", 'const text = "what {} is left out";'),
    ("page.html", "{% if x %}<p>What {} is left out</p>{% endif %}"),
    ("page.html", '<button title="What {} is left out">OK</button>'),
]
"""Where other files than pages and Python have text: ``{}`` is a phrase, ``{0}`` and ``{1}`` its parts."""

FORMER_LONG_SENTENCE = """
A volume that by its flip is what a person wants, or is on its way there, is not modified again:
`burstctl flip VOLUME --for 6h`, or `--where … --for 6h` for a whole fleet, then only says in the ledger
for whom and how long it is kept.
"""

STANDARD_PAGE = """
# Configuration settings

ModifyVolume changes the size, the type and the performance of a volume. `burstctl flip --dry-run` prints
the plan. There is no charge for a dry run. The volume `vol-1` is no longer attached.
See [the guide](https://example.com/dry.md).

```console
$ echo "nobody is told, for so long, that it runs dry"
```

| Setting | Default |
| --- | --- |
| `told` | The value is not a valid duration. |
"""
STANDARD_PYTHON = '''
"""Read the samples of a volume."""


class VolumeReading:
    """The samples of one volume.

    Raises:
        ValueError: If the period is not positive::

            nobody whoever anew afresh
    """

    dry_run = False


def notify(channel, alert):
    # CloudWatch omits BurstBalance for idle volumes
    raise ValueError(f"{channel!r} is not a valid channel; {alert} was not sent")


SQL = "SELECT told FROM stories WHERE wish IS NULL"
'''


def findings(word_list, read):
    return [finding.problem for passage in read for finding in word_list.check(passage)]


@pytest.mark.parametrize(("code", "phrase"), FORMER_PROSE)
def test_former_strings_docstrings_and_comments_are_found(word_list, code, phrase):
    problems = findings(word_list, passages.passages_of_python("lab/module.py", code))
    assert any(problem.startswith(f'"{phrase}": ') for problem in problems), problems


@pytest.mark.parametrize(("page", "phrase"), FORMER_PAGES)
def test_former_pages_are_found(word_list, page, phrase):
    table = f"| a | b |\n| --- | --- |\n{page}" if page.startswith("|") else page
    problems = findings(word_list, passages.passages_of_page("docs/page.md", table))
    assert any(problem.startswith(f'"{phrase}": ') for problem in problems), problems


@pytest.mark.parametrize(("path", "text"), PLACES)
def test_a_former_phrase_is_found_in_settings_scripts_and_templates(word_list, path, text):
    first, rest = FORMER_PHRASE.split(" ", 1)
    text = text.replace("{}", FORMER_PHRASE).replace("{0}", first).replace("{1}", rest)
    [problem] = findings(word_list, passages.passages_of_tokens(path, text))
    assert problem.startswith(f'"{FORMER_PHRASE}": ')


def test_passages_of_scripts_and_settings_have_their_line_and_are_apart():
    script = "run();  // one\n// two\n//\n// three\nconst dryRun = /it is no word/;\n"
    assert [
        (passage.line, passage.group, passage.text)
        for passage in passages.passages_of_tokens("page.js", script)
    ] == [
        (1, "names", "run"),
        (1, "comments", "one two\n\nthree"),
        (5, "names", "dry_run"),
        (5, "strings", "/it is no word/"),
    ]
    settings = 'a = [  # one\n  "A1",  # two\n  "B2",  # three\n]\n'
    assert [passage.text for passage in passages.passages_of_tokens("page.toml", settings)] == [
        "one",
        "two",
        "three",
    ]


def test_names_of_scripts_are_found(word_list):
    [problem] = findings(
        word_list, passages.passages_of_tokens("page.js", "const viewOf = (row) => data.told;")
    )
    assert problem.startswith('name "told": ')


@pytest.mark.parametrize("end", [".md", ".py", *passages.LEXERS])
def test_files_of_each_kind_are_read(end):
    assert any(path.endswith(end) for path in prose.tracked_files())


@pytest.mark.parametrize("code", FORMER_NAMES)
def test_former_names_are_found(word_list, code):
    problems = findings(word_list, passages.passages_of_python("tests/module.py", code))
    assert any(problem.startswith("name ") for problem in problems), problems


def test_a_long_sentence_is_found_with_its_number_of_words(word_list):
    [problem] = findings(word_list, passages.passages_of_page("docs/page.md", FORMER_LONG_SENTENCE))
    assert problem.startswith('a sentence of 42 words: "A volume that by its flip')


def test_thirty_words_are_not_too_many(word_list):
    assert findings(word_list, passages.passages_of_page("page.md", f"{'word ' * 29}word.")) == []
    assert len(findings(word_list, passages.passages_of_page("page.md", f"{'word ' * 30}word."))) == 1


def test_standard_english_passes(word_list):
    assert findings(word_list, passages.passages_of_page("docs/page.md", STANDARD_PAGE)) == []
    assert findings(word_list, passages.passages_of_python("lambdas/module.py", STANDARD_PYTHON)) == []


def test_strings_of_tests_are_not_read():
    comments = passages.passages_of_python(
        "tests/module.py", "x = 'what is no text cannot be told'  # a comment"
    )
    assert [passage.text for passage in comments if passage.group != "names"] == ["a comment"]


def test_a_hash_inside_a_string_is_not_a_comment():
    comments = passages.passages_of_python("lab/module.py", 'x = """a\n # b\n"""; y = "c # d"  # e')
    assert [(passage.line, passage.text) for passage in comments if passage.group == "comments"] == [(3, "e")]


def test_every_rule_of_the_list_is_read(word_list):
    document = tomllib.loads((CHECKS / "words.toml").read_text())
    assert len(word_list._text) == len(document["text"])
    names = [*word_list._name_parts, *word_list._whole_names]
    assert sorted(names) == sorted(word for row in document["name"] for word in row["find"].split())


def test_an_exception_excuses_its_passage_only_and_needs_a_reason():
    rule = {"find": "dry", "instead": "write empty"}
    row = {"path": "docs/*.md", "contains": "dry ice", "reason": "that is what it is called"}
    word_list = prose.WordList({"text": [rule], "exception": [row]})
    assert findings(word_list, passages.passages_of_page("docs/page.md", "Cool it with dry ice.")) == []
    assert len(findings(word_list, passages.passages_of_page("docs/page.md", "It is dry."))) == 1
    assert len(findings(word_list, passages.passages_of_page("page.md", "Cool it with dry ice."))) == 1
    with pytest.raises(ValueError, match="has no reason"):
        prose.WordList({"exception": [row | {"reason": " "}]})


def test_a_file_without_findings_is_read_again_only_if_it_changed(tmp_path, monkeypatch):
    read = []
    pages = [tmp_path / "good.md", tmp_path / "bad.md"]
    good, bad = map(str, pages)
    monkeypatch.setattr(prose, "CLEAN_FILES", tmp_path / "clean.json")
    monkeypatch.setattr(prose, "tracked_files", lambda: [good, bad])
    monkeypatch.setattr(prose, "ProcessPoolExecutor", ThreadPoolExecutor)
    monkeypatch.setattr("sys.argv", ["prose.py"])
    real = prose.check_file

    def check_file(path):
        read.append(path)
        return real(path)

    monkeypatch.setattr(prose, "check_file", check_file)

    def findings_of(good_text, bad_text):
        read.clear()
        for page, text in zip(pages, (good_text, bad_text), strict=True):
            page.write_text(text)
        return prose.main(), sorted(read)

    wrong = FORMER_PAGES[1][0]
    assert findings_of("It is empty.", wrong) == (1, [bad, good])
    assert findings_of("It is empty.", wrong) == (1, [bad])
    assert findings_of("It is full.", "It is empty.") == (0, [bad, good])
    assert findings_of("It is full.", "It is empty.") == (0, [])
    assert findings_of(wrong, "It is empty.") == (1, [good])
