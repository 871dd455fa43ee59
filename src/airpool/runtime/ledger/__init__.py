"""What a device has spent: a ledger that is charged before anything is sent, and never says less than was sent.

mechanism.py   what one inference costs at its noise floor, as text with a digest
spending.py    the ε of many inferences of several mechanisms together
budget.py      how much may be spent: in all, in a scene, in a window of time
chain.py       rows tied to each other by hashes and signed by the device; what `verify` finds
store.py       the SQLite file      head.py  the newest row, outside the file
ledger.py      all of it together: `Ledger(...).charge(id, mechanism)`
backup.py      copies and exports   fleet.py  what a server has been told of many devices
"""
