"""`python -m harness` is `staticfire`."""

from harness.cli import main

if __name__ == "__main__":
    main()
