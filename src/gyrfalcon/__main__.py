"""`python -m gyrfalcon` is the `gyrfalcon` command."""

from gyrfalcon.cli import main

if __name__ == "__main__":
    main()
