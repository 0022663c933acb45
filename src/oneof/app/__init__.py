"""What a person runs: fit, report, review page, streaming prediction, the command line."""
