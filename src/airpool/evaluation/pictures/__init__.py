"""Models of your own cameras, judged on objects that they have not seen (`airpool fit`).

    made = job.make(pictures, CameraJob(out=Path("shop.safetensors"), folds=5))

job          from pictures to a model, its table, its figure and its card
accuracy     accuracy of a model at each ε, beside the vote, one camera and chance
card         the page beside the model; confusion: its figure
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
