"""`python -m airpool`: the command line."""

from airpool.cli import main

if __name__ == "__main__":
    main()
