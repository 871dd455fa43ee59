"""The privacy ledger of a device: charged before anything is sent, and never below what was sent.

mechanism.py   one inference at its noise floor, as text with a digest, and the plug-ins that it depends on
spending.py    the ε of many inferences of several mechanisms together
budget.py      limits on ε: in all, in a scene, in a window of time, in an event
chain.py       rows tied to each other by hashes and signed by the device; what `verify` finds
store.py       the SQLite file      head.py  the newest row, outside the file
ledger.py      all of it together: `Ledger(...).charge(id, mechanism)`, one process at a time
clock.py       monotonic time         refused.py  why a device stays silent
backup.py      copies and exports, and what is left of the budgets
fleet.py       the ledgers that devices have reported to a server
"""
