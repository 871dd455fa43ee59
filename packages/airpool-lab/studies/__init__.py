"""What was run once to find something out, with its tables: not part of the package. README.md lists the studies."""
