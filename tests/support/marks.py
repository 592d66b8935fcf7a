"""What a test, a class or a file asks of a fixture with a mark: see ``markers`` in pyproject.toml."""


def lab_settings(request, **defaults):
    """The settings of the lab: those of the mark, and else these."""
    mark = request.node.get_closest_marker("lab_settings")
    return defaults | (mark.kwargs if mark else {})


def policy_file(request):
    """The text of the policy, or ``None``."""
    mark = request.node.get_closest_marker("policy_file")
    return mark.args[0] if mark else None
