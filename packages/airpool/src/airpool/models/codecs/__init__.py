"""Codecs: from a feature to a short vector, and from the noisy sum of such vectors to a class.

codec        interface, registry and files
dense        trained through the noise; training: how; runs: from plan to file
vote         the sum of local posteriors, without training
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
