"""What every room leans on: arrays, files, random draws, searches, tables, figures and pages."""
