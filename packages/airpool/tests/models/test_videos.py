"""Frames of videos: sampled by time, one group for each stretch or event, never neighbours across groups."""

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from airpool.models.images import features, videos  # noqa: E402
from airpool.models.images.trunk import SIDE  # noqa: E402

FPS = 5
LABELS = "start,end,class,event\n0,6,mug,first\n6,12,pear,\n0:12,0:18,mug,first\n18,19,pear,\n"


def video(path, seconds=20, size=(32, 24)):
    """Red rises with time, green is 40, blue 200: 12 steps a second."""
    out = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), FPS, size)
    for k in range(seconds * FPS):
        out.write(np.full((size[1], size[0], 3), (200, 40, min(255, 12 * k // FPS)), np.uint8))
    out.release()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("videos")
    video(path / "left.avi")
    video(path / "right.avi", seconds=10)
    (path / videos.LABELS).write_text(LABELS)
    return path


def test_frames_are_of_their_moment_in_red_green_blue_and_what_is_not_there_is_missing(folder):
    found = videos.found(folder, every=1.0)
    assert found.cameras == ("left", "right")
    views = list(features.views(found.shots, ordered=found.ordered))
    for shot, view in zip(found.shots, views, strict=True):
        at = float(found.objects[shot.object].partition("/")[2].removesuffix(" s"))
        if shot.camera == 1 and at >= 10:
            assert view is None
            continue
        assert view is not None
        assert view.shape == (3, SIDE, SIDE)
        np.testing.assert_allclose(view.mean((1, 2)), (12 * at, 40, 200), atol=6)


def test_frames_of_two_groups_are_never_neighbours(folder):
    found = videos.found(folder, every=0.5)
    at = np.array([float(name.partition("/")[2].removesuffix(" s")) for name in found.objects])
    groups = np.array(found.groups)
    assert set(groups) == {"event first", "stretch of line 3"} | ({"stretch of line 5"} & set(groups))
    apart = np.abs(at[:, None] - at)[groups[:, None] != groups]
    assert apart.min() >= 2 * 0.5 - 1e-9
    assert "1 stretches are too short" in " ".join(videos.found(folder, every=1.0).notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start,end\n0,1\n", "no column class"),
        ("start,end,class\n0,never,mug\n", "end is 'never', must be seconds, or h:mm:ss"),
        ("start,end,class\n5,4,mug\n", "it ends at 4, must be after 5"),
        ("start,end,class\n0,5,mug\n4,9,pear\n", "mug from 0 to 5 s and pear from 4 s overlap"),
        ("start,end,class\n0,1,mug\n", "no stretch is long enough"),
    ],
)
def test_labels_that_cannot_be_understood_are_an_error_that_says_why(folder, tmp_path, text, message):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        videos.found(folder, tmp_path / "own.csv")


def test_moments_hours_later_have_names_and_digests_of_their_own(folder, tmp_path):
    """So that no frame is taken for its neighbour."""
    late = tmp_path / "late.csv"
    late.write_text("start,end,class\n10000,10001,mug\n20000,20001,pear\n")
    found = videos.found(folder, late, every=0.04)
    assert len(set(found.objects)) == len(found.objects) == 2 * 24
    assert len({shot.read()[0] for shot in found.shots}) == len(found.shots)


def test_labels_of_years_are_refused_at_once(folder, tmp_path):
    long = tmp_path / "long.csv"
    long.write_text("start,end,class\n0,1e9,mug\n1e9,2e9,pear\n")
    with pytest.raises(ValueError, match="frames of each camera, must be 1000000 at most"):
        videos.found(folder, long)


def test_a_folder_without_videos_or_labels_is_an_error(folder, tmp_path):
    with pytest.raises(ValueError, match="no video; must hold one file for each camera"):
        videos.found(tmp_path)
    with pytest.raises(ValueError, match="no such folder"):
        videos.found(tmp_path / "none")
    (tmp_path / "left.avi").write_bytes(b"no video")
    with pytest.raises(ValueError, match="labels of videos are a CSV file"):
        videos.found(tmp_path)
    with pytest.raises(ValueError, match="every=0 must be > 0"):
        videos.found(folder, every=0)
    found = videos.found(tmp_path, folder / videos.LABELS)
    assert [*features.views(found.shots, ordered=True)] == [None] * len(found.shots)
