"""The page, `airpool ui`: look at one inference, turn the knobs, attack it, plan one, watch a running system.

app          the page: its guard, files and routes      serving      the process that serves it
asked        requests read safely, and replies          jobs         long computations, in a process of their own
settings     the page's settings as a network           knobs        controls as data, in groups
answers      a network's account, part by part          leakage      ε, odds, what is protected and what not
measured     error, cost, accuracy, curve               copies       a network as commands, Python and TOML
scene        one inference, or many, of one object      objects      objects to look at, as sensors encode them
adversary    bounds of an attacker, the audit, and pictures that it paints of a view
planning     the planner's frontier                     live         a running system, watched
meshes       meshes that are given, read safely
cli          the commands
"""
