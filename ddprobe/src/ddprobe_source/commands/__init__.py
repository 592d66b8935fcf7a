"""The modes of the command, and its help."""
