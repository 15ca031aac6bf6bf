"""The paper's three machine-learning tasks: real models, real data, live and replayed."""
