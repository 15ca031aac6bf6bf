"""Benchmarks of the sampler: speed, and quality of the results."""
