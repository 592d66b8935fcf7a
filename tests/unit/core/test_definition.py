from burstwatch.core.definition import Vocabulary, change_definition

VOCABULARY = Vocabulary(terraform="aws_thing", cloudformation="AWS::Thing::Thing", cdk="thing.Thing")


def change(name):
    return change_definition(
        VOCABULARY,
        name,
        terraform={"mode": '"elastic"', "throughput": "20"},
        cloudformation={"Mode": "elastic", "Throughput": "20"},
        cdk={"mode": "thing.Mode.ELASTIC"},
    )


def test_each_language_shows_what_changes_in_its_own_frame():
    result = change("shared home")
    assert result.terraform == (
        'resource "aws_thing" "shared_home" {\n  mode       = "elastic"\n  throughput = 20\n}'
    )
    assert result.cloudformation == (
        "SharedHome:\n  Type: AWS::Thing::Thing\n  Properties:\n    Mode: elastic\n    Throughput: 20"
    )
    assert result.cdk == 'thing.Thing(\n    self,\n    "SharedHome",\n    mode=thing.Mode.ELASTIC,\n)'


def test_a_name_that_begins_with_no_letter_gets_a_word_in_front():
    assert '"resource_7_days"' in change("7 days").terraform
    assert change("…").cloudformation.startswith("Resource:")


def test_a_hostile_name_cannot_leave_its_quotes():
    assert 'resource "aws_thing" "a_b" {' in change('a" {\n  b').terraform
