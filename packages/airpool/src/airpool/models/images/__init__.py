"""Ordinary cameras: photographs or videos in, a fitted model out (`airpool.fit(images=...)`).

fitting      `fit`, of pictures or of features            trunk            the trunk that ships, or a model's own
pictures     pictures of objects by cameras               folder, listed   those of a folder; of a CSV file
videos       frames of videos, by time                    tuning           a trunk trained on
features     what a trunk makes of them; cache: kept      calibration      views to fit int8 to
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
