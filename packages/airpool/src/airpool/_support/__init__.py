"""Shared support for all packages.

arrays      array types and checks                       files, tensors   atomic writes; safetensors
draws       random numbers of NumPy and torch            search           roots, from the safe side
table       result tables                                figures, page    one style for figures; one-file web pages
plugins     registries of plug-ins                       extras           optional dependencies
progress    progress of a long computation               threads          one thread for small arrays
version     of the package, day and machine              rooms            modules imported on first use
brief       short reprs                                  rounding         numbers of a guarantee as text
text_table  tables for people                            errors           the base of all errors
notebook    what objects show in a notebook
special     special functions: SciPy's, or our own       plain_normal, plain_gamma   our own, without SciPy
"""
