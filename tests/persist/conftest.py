"""What the tests of this folder share."""

import shutil

import pytest

from tests.persist.folders import fitted


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model folder that tests copy before they damage it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted().save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")
