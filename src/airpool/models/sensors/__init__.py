"""Sensors of your own: features in, a fitted model out (`airpool.fit`).

fitting      `fit`; fitted: the model and its file
file         features on disk                             columns, groups  classes and groups; splits by group
stacking     sensors of several widths as one tensor      heads            their local heads
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
