"""``tools/simulate strategies``."""

from tools.strategies.run import main

raise SystemExit(main())
