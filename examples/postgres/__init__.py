"""Tune a real PostgreSQL server with PCTSSampler.

Read the modules in this order; none imports one that comes after it.

=============  ====================================================================
``database``   connections
``failure``    what can go wrong with a configuration: refused, timed out, crashed
``knobs``      what can be tuned, in which units, and how it is written down
``workload``   what is measured: tables, and rounds of queries
``server``     an embedded PostgreSQL that this process owns
``own_server`` a PostgreSQL that belongs to the user
``evaluator``  changes of the configuration at least cost; runs the workload
``storage``    the storage of the study
``flight``     what a worker has asked and not told
``tune``       the study: several trials in flight, asked and told
``report``     tables, pictures and the configuration to copy
``cli``        options that the commands share, and their common start
``__main__``   ``python -m examples.postgres``
``decay``      ``python -m examples.postgres.decay``
``compare``    ``python -m examples.postgres.compare``
=============  ====================================================================
"""
