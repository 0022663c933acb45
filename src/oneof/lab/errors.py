"""What the lab says when it cannot go on."""


class LabError(ValueError):
    """The message names what was asked for, says what is wrong and what to do."""
