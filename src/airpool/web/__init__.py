"""The page, `airpool ui`: look at one inference, turn the knobs, attack it, plan one, watch a running system.

app          routes of the page                     serving      the process that serves it
guard        who may ask; headers for the browser   asked        requests read safely, and replies
files        what is served as it lies              jobs         long computations, in a process of their own
settings     the page's settings as a network       applies      settings that do not apply, and why
least        the least ε for an accuracy
live         a running system, watched              upstream     its server's HTTP API, as a client
"""
