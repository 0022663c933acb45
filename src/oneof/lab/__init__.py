"""The benchmark lab: declared experiments, jobs and records, runners, tables and figures."""

LAB_VERSION = 1
"""Part of every job's hash. Raise it when a change of the lab makes old records incomparable."""


class LabError(ValueError):
    """The message names what was asked for, says what is wrong and what to do."""
