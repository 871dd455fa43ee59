import io

import numpy as np
import pytest
from PIL import Image

from airpool.models.vision.picture import prepared, read


def _file(image, kind="PNG", **how):
    file = io.BytesIO()
    image.save(file, kind, **how)
    file.seek(0)
    return file


def test_a_picture_is_upright_by_its_exif():
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4] = 255  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: its left is our top
    found = read(_file(Image.fromarray(pixels), "JPEG", exif=exif, quality=100))
    assert found.shape == (8, 4, 3)
    assert found[:4].min() > 200
    assert found[4:].max() < 50


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "1", "I;16"])
def test_every_mode_becomes_red_green_blue(mode):
    image = Image.fromarray(np.full((5, 7), 300, np.uint16)) if mode == "I;16" else Image.new(mode, (7, 5))
    found = read(_file(image, "TIFF" if mode == "CMYK" else "PNG"))
    assert found.shape == (5, 7, 3)
    assert found.dtype == np.uint8


def test_a_picture_cut_off_is_an_os_error(tmp_path):
    (whole := tmp_path / "cut.jpg").write_bytes(_file(Image.new("RGB", (64, 64)), "JPEG").getvalue()[:-20])
    with pytest.raises(OSError, match="truncated"):
        read(whole)
    whole.write_bytes(b"no picture")
    with pytest.raises(OSError, match=r"cut\.jpg"):
        read(whole)


def test_the_square_in_the_middle_is_taken_channels_first():
    picture = np.zeros((10, 30, 3), np.uint8)
    picture[:, 10:20] = (10, 20, 30)
    found = prepared(picture, 5)
    assert found.shape == (3, 5, 5)
    assert (found.reshape(3, -1).T == (10, 20, 30)).all()


def test_what_is_no_picture_is_refused():
    for bad in (np.zeros((3, 3)), np.zeros((3, 3, 4), np.uint8), np.zeros((3, 3, 3)), np.zeros((0, 3, 3), np.uint8)):
        with pytest.raises(ValueError, match="must be bytes"):
            prepared(bad, 4)
