"""The paper: its formulas as printed (formulas/), and every figure and table redrawn (figures/)."""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
