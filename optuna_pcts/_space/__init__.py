"""Parameters and the unit cube.

``space.py`` is for known parameters, ``observed.py`` for those that trials show.
"""
