"""The array type that every layer uses.

(Not ``_typing.py``: Python has a module of that name, and would find this one where scripts of the
package's folder are run.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


FloatArray = NDArray[np.float64]
