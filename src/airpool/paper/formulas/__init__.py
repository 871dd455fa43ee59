"""The paper's formulas exactly as printed, so that its curves can be redrawn. None of them is a default anywhere."""
