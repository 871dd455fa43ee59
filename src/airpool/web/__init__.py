"""The page, `airpool ui`: look at one inference, turn the knobs, attack it, plan one, watch a running system.

app          routes of the page                     serving      the process that serves it
guard        who may ask; headers for the browser   asked        requests read safely, and replies
files        what is served as it lies              jobs         long computations, in a process of their own
settings     the page's settings as a network       applies      settings that do not apply, and why
knobs        controls as data: what is asked for    radio_knobs  the same of air and slots; all of them in groups
presets      what /api/knobs answers                least        the least ε for an accuracy
answers      a network's account, part by part      leakage      ε, odds, what is protected and what not
measured     error, cost, accuracy, curve           copies       a network as commands, Python and TOML
live         a running system, watched              upstream     its server's HTTP API, as a client
adversary    bounds of an attacker, and the audit   painting     pictures that it paints of a view
planning     the planner's frontier                 flat         a network as the page's settings
scene        one inference, or many, of one object  objects      objects to look at, as sensors encode them
meshes       meshes that are given, read safely     silence      words: who is silent, what the server sees
png          pictures as data: addresses            apart        numbers of up to seconds, apart from quick ones
"""
