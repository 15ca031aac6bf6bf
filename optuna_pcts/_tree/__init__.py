"""The paper, in numpy only: a tree of cells, delayed bandits, fidelities and their costs.

===================  ==============================================================================
``tree.py``          the algorithm: ask down to a leaf, tell up the path
``statistics.py``    what the cells know: rewards summed up the path, bounds, Bmin
``partition.py``     the cube cut into cells, and which trial lies in which
``messages.py``      what passes between study, search and tree
``columns.py``       the arrays of the tree
``rewards.py``       from values to rewards: orientation, scale, clipping, bias
``refit.py``         when estimates from all trials are refitted, and to which
``repeats.py``       outliers, and what replicates say about noise
``policies.py``      the delayed bandits of table 2
``smoothness.py``    nu and rho, known or not
``prior.py``         what to expect of a cell without feedback
``fidelity.py``      z_h and zeta
``cost_models.py``   the cost models of table 3
===================  ==============================================================================
"""
