"""Run the command."""

import sys

from tools.strategies.command import main

sys.exit(main())
