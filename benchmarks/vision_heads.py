"""Heads trained by stochastic gradients on the same features (being written)."""


def measure(quick, people, net):
    return {}
