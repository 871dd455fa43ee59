"""Commands of this package: `airpool ui`, and `watched`, the page of `airpool up --ui`."""
