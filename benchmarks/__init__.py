"""Measures the sampler: how fast it is, and how well it does."""
