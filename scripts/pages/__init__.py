"""Run every command and code block of every page, so that the pages stay true.

blocks    the blocks of a page, with their marks and their rules
run       one page, in a copy of the working tree
session   the Python of a page: its blocks share a namespace
"""
