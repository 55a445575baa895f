"""Penalized risks of losses with one kink, minimized in the dual by coordinate ascent, dense and in float64."""

import numpy as np

# Where the kink is, the slopes on its left and right, and whether the loss is one of margins; it is zero at the kink.
PIECES = {
    "hinge": (1.0, -1.0, 0.0, True),
    "absolute": (0.0, -1.0, 1.0, False),
    "quantile": (0.0, -0.5, 0.5, False),
}


def minimum(name, K, Y, penalty, weights=None, rounds=20_000, tolerance=1e-9):
    """The minimum of Σᵢ wᵢ ℓ(fᵢ, yᵢ) / Σᵢ wᵢ + penalty ‖f‖² over f in the span of K, without an intercept.

    As φ(u) is the maximum of a (u - kink) over a between the slopes, the minimizer is f = -Σᵢ cᵢ k(·, xᵢ) / (2 penalty)
    with cᵢ = wᵢ aᵢ, of margins times yᵢ, and each aᵢ maximizes a concave parabola when the others are held. Returns the
    risk of f and the dual value, between which the minimum is.
    """
    kink, left, right, margins = PIECES[name]
    w = np.ones(len(Y)) if weights is None else np.asarray(weights, dtype=float)
    w = w / w.sum()
    signs = Y @ Y.T if margins else np.ones((len(Y), len(Y)))
    Q = K * signs * np.outer(w, w) / (2 * penalty)
    linear = -w * kink if margins else -w * (Y[:, 0] + kink)
    a = np.zeros(len(Y))
    for _ in range(rounds):
        for i in range(len(Y)):
            if Q[i, i] > 0:
                a[i] = np.clip(a[i] + (linear[i] - Q[i] @ a) / Q[i, i], left, right)
        dual = linear @ a - a @ Q @ a / 2
        u = -(Q @ a) / w if margins else -(Q @ a) / w - Y[:, 0]
        risk = w @ np.maximum(left * (u - kink), right * (u - kink)) + a @ Q @ a / 2
        if risk - dual <= tolerance * max(risk, 1e-300):
            break
    return risk, dual
