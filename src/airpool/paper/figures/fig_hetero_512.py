"""Half of the devices sensitive, q = 512: as fig_hetero_16, from a codec trained and measured on a GPU.

By Theorem 1's account only uniform was measured. Weights and clip norms were designed on the validation latents of
q = 16: they meet every ε, but need not be the best for this codec.
"""

from airpool.paper.figures.description import GPU_RUN, Result
from airpool.paper.figures.fig_hetero_16 import judge

RESULT = Result("fig-hetero-512", GPU_RUN, judge)
