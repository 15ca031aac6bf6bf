"""``python -m optuna_pcts``."""

import sys

from optuna_pcts.cli import main


sys.exit(main())
