"""What is said of data that cannot be used."""


class DataError(ValueError):
    """Data that cannot be used. One line: the file or the input, what is wrong, what to do."""


class MissingDataError(DataError):
    """A data set that is not in the data folder. The message says which file to put where."""
