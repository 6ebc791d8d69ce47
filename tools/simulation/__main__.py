"""``python -m tools.simulation``: see ``command``."""

from tools.simulation.command import main

if __name__ == "__main__":
    raise SystemExit(main())
