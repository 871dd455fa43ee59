"""Commands of this package: air, check, device, fleet, keys, ledger, ranking, server and up.

running      what the commands of the roles share
"""
