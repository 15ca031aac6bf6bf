"""Where to ask next. It knows no study.

===================  ==============================================================================
``engine.py``        a tree, and proposers that are asked in their order
``local.py``         points from where the best one may be
``distribution.py``  the normal distribution they are drawn from
``modes.py``         groups of points that lie apart
``config.py``        the constants, each with its reason
===================  ==============================================================================
"""
