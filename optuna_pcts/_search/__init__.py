"""Where to ask next. It knows no study.

===================  ==============================================================================
``engine.py``        a tree, and proposers that are asked in their order
``local.py``         points from where the best one may be
``distribution.py``  how they are drawn
``modes.py``         groups of points that lie apart
``config.py``        the constants, each with its reason
===================  ==============================================================================
"""
