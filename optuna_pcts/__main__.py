"""``python -m optuna_pcts``."""

import sys

from optuna_pcts._cli import main


sys.exit(main())
