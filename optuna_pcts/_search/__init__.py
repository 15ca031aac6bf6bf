"""Where to ask next. It knows no study.

``local`` draws points from where the best one may be: ``distribution`` says how, ``modes`` tells
groups of points apart, ``config`` has the constants.
"""
