"""Training jobs: from a packed file of meshes, or features of your own sensors, to weights and the card beside them.

    job = TrainingJob(Path("meshes.safetensors"), out=Path("weights"))
    card, files = trunk.make(trunk.begin(job, "trunk", settings), "trunk", settings, seeds=[0])

work         data and folder of a job; a trunk on disk, for what is trained on its features
trunk        trunks, one for each seed
head         local heads, and the vote
codec        codecs, one for each seed, for several ε
sensors      heads, vote and codec of your own sensors, in one file
whole        trunk, head, vote and codec at once
accuracy     accuracy of a codec through each network, for its card
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
