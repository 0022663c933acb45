"""The one error of this package."""


class ModelError(ValueError):
    """A model folder that cannot be used. The message names the file and the reason."""
