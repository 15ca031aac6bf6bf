"""The systems that the paper compares with, each as an Optuna sampler."""
