"""Candidate sets: what the user has."""

from oneof.candidates.sets import UNKNOWN, CandidateError, Candidates, NoInformationWarning

__all__ = ["UNKNOWN", "CandidateError", "Candidates", "NoInformationWarning"]
