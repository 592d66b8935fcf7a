"""The bench that counts the functions of a pass and of a flip."""


def test_the_pass_with_its_first_alert_goes_from_reading_to_delivery(functions_by_trace):
    functions = functions_by_trace["a pass with its first alert"]
    assert "run_pass" in functions["engine/watch_pass.py"]
    assert "core/watch/decide.py" in functions
    assert "deliver" in functions["engine/alert_delivery.py"]
    assert "engine/flip_executor.py" not in functions


def test_a_flip_goes_from_the_fresh_context_to_the_outcome_also_in_its_own_thread(functions_by_trace):
    functions = functions_by_trace["a flip"]
    assert "execute_flips" in functions["engine/flip_executor.py"]
    assert "Ec2Modifier.modify" in functions["adapters/aws/ec2_modify.py"]
    assert "make_plan" in functions["core/flips/planning.py"]


def test_a_function_of_another_project_does_not_count(functions_by_trace):
    names = [
        name for functions in functions_by_trace.values() for names in functions.values() for name in names
    ]
    assert names
    assert not [name for name in names if name.rpartition(".")[2].startswith("<")]
