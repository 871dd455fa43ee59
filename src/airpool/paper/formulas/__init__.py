"""The paper's formulas exactly as printed, so that its curves can be redrawn. None of them is a default anywhere.

theorem1     claimed ε                                    theorem2, mse    accuracy; mean square error
theorem3     how often a device is selected               lemma            Table 1
weights      of the appendix                              accuracy         Table 2, as printed
"""

from airpool._support.rooms import import_on_use

import_on_use(__name__)
