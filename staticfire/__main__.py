"""`python -m staticfire` is the command `staticfire`."""

from staticfire.harness.cli import main

if __name__ == "__main__":
    main()
