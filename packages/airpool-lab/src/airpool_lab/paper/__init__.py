"""The paper: its formulas as printed (formulas/), and every figure and table redrawn (figures/)."""
