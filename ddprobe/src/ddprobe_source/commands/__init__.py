"""The modes of the command."""
