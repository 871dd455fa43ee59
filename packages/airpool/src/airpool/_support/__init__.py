"""Shared support for all packages.

arrays      array types and checks                       files            atomic writes; safetensors
draws       random numbers of NumPy and torch            search           roots, from the safe side
table       result tables, and tables for people         figures, page    one style for figures; one-file web pages
plugins     registries of plug-ins                       extras           optional dependencies
progress    progress of a long computation               threads          one thread for small arrays
version     of the package, day and machine              errors           the base of all errors
brief       short reprs                                  rounding         numbers of a guarantee as text
notebook    what objects show in a notebook              rules            checks of fields; NetworkError
special     special functions: SciPy's, or our own       plain            our own, without SciPy
"""
