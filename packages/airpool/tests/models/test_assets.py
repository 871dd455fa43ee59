"""The data package: where it is found, and that its version fits."""

import pytest

from airpool.models import assets


def test_data_of_another_release_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(assets, "_version", lambda: "0.2.1")
    with pytest.raises(ValueError, match=r"the model 'm' needs airpool-models 0\.1, but 0\.2\.1 is installed: pip"):
        assets.folder("the model 'm'")


@pytest.mark.parametrize("version", ["0.1.0", "0.1.7", "0.1", None])
def test_another_patch_fits_and_a_folder_on_the_path_is_taken_as_it_is(version, monkeypatch):
    monkeypatch.setattr(assets, "_version", lambda: version)
    assert assets.folder() == assets.installed()
