"""`python -m gyrfalcon` is the `gyrfalcon` command."""

from .command import main

if __name__ == "__main__":
    main()
