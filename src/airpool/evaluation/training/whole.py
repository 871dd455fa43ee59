"""A whole model: a trunk, then a local head, a vote and a codec on its features."""

from pathlib import Path

from airpool.evaluation.training import codec, head, trunk
from airpool.evaluation.training.codec import CodecSettings
from airpool.evaluation.training.trunk import TrunkSettings
from airpool.evaluation.training.work import Made, TrainingJob, on_trunk
from airpool.models.local import HeadRecipe


def make(
    job: TrainingJob,
    of_trunk: TrunkSettings,
    of_head: HeadRecipe,
    of_codec: CodecSettings,
    *,
    seed: int = 0,
    imagenet: Path | None = None,
) -> dict[str, Made]:
    """Cards and files of trunk, head (with the vote) and codec; views are rendered once."""
    work = trunk.begin(job, "codec", of_trunk)
    work.splits.require("validation", "head")  # now, rather than after the trunk is trained
    made = {"trunk": trunk.make(work, "trunk", of_trunk, seeds=[seed], imagenet=imagenet)}
    on = on_trunk([work.file(f"trunk-{seed}")], job, "codec", work)
    made["head"] = head.make(on, "head", of_head)
    made["head"][1].append(head.make_vote(on, "vote", work.file("head")))
    made["codec"] = codec.make(on, "codec", of_codec, seeds=[seed])
    return made
