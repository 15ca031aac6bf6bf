"""The adapter to Optuna: the only layer that reads or writes a study.

===================  ==============================================================================
``sampler.py``       Optuna's hooks over the search
``pruner.py``        where an objective meets its fidelity
``budget.py``        a callback that stops at a cost
``history.py``       the storage as a stream of feedback
``progress.py``      how far trials have come: steps, fidelities, curves
``attributes.py``    every key in the storage, and how it is read and written
``costs.py``         what a trial costs
``stamps.py``        time stamps
``unwrap.py``        samplers and pruners within others
===================  ==============================================================================
"""
