"""Shared support for all packages: arrays, files, random draws, searches, tables, figures and pages."""
