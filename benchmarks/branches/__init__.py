"""Objectives some of whose parameters are there only if others have certain values."""
