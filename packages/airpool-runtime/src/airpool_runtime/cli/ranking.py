"""`airpool ranking`: the ranking server of Scheme 2.2."""

from airpool_runtime.cli import running
from airpool_runtime.options import RankingOptions

app = running.role_app(RankingOptions, "Run the ranking server: it receives noisy scores, and says who is selected.")
