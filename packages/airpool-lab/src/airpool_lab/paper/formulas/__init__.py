"""The paper's formulas exactly as printed, so that its curves can be redrawn. None of them is a default anywhere.

theorem2     accuracy, and Table 2                        weights          of the appendix, and the error they minimise
theorem3     how often a device is selected, and Table 1  theorem1         claimed ε: airpool.account.theorem1
"""
