"""The array type that every layer uses.

(Not ``_typing.py``: that would shadow a module of Python where a script in this folder is run.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


FloatArray = NDArray[np.float64]
