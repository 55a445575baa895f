"""What kooplearn and deeptime make of the same frames: run by the Python of an environment that has them.

`python koopman_peers.py problems.npz` prints one JSON object. This file imports nothing of Gyrfalcon.
"""

import importlib.metadata
import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")

SMALL = 2000  # frames for an exact method, whose matrices are n × n


def kooplearn_model(settings):
    from kooplearn.kernel import NystroemKernelRidge

    scale = float(settings["length_scale"])
    return NystroemKernelRidge(
        n_components=int(settings["rank"]),
        reduced_rank=True,
        kernel="rbf",
        gamma=1 / (2 * scale**2),
        alpha=float(settings["penalty"]),
        n_centers=int(settings["centers"]),
        random_state=0,
        eigen_solver="dense",
    )


def deeptime_model(settings):
    from deeptime.decomposition import KernelEDMD
    from deeptime.kernels import GaussianKernel

    scale = float(settings["length_scale"])
    return KernelEDMD(GaussianKernel(scale), epsilon=SMALL * float(settings["penalty"]), n_eigs=int(settings["rank"]))


def timed(call, turns):
    """What a call returns, and its CPU seconds, the least of some turns."""
    times = []
    for _ in range(turns):
        start = time.process_time()
        found = call()
        times.append(time.process_time() - start)
    return found, min(times)


def largest(values, count=4):
    values = np.asarray(values)
    values = values[np.argsort(-np.abs(values))][:count]
    return [[float(value.real), float(value.imag)] for value in values]


def main():
    problems = np.load(sys.argv[1])
    names = sorted({key.split("/")[0] for key in problems.files})
    found = {"versions": {peer: importlib.metadata.version(peer) for peer in ("kooplearn", "deeptime")}}
    for name in names:
        X = problems[f"{name}/X"]
        settings = {key: problems[f"{name}/{key}"] for key in ("length_scale", "rank", "penalty", "centers")}
        closely = bool(problems[f"{name}/closely"])
        model, seconds = timed(lambda X=X, settings=settings: kooplearn_model(settings).fit(X), 3 if closely else 1)
        result = {"kooplearn": {"seconds": seconds, "eigenvalues": largest(model.eig())}}
        result["kooplearn"]["centers"] = np.asarray(model.nys_centers_idxs_).tolist()
        if f"{name}/test" in problems.files:
            test = problems[f"{name}/test"]
            error = float(np.sqrt(np.mean((model.predict(test[:-1]) - test[1:]) ** 2)))
            result["kooplearn"]["error"] = error
        if closely:
            few = X[: SMALL + 1]
            exact, seconds = timed(lambda few=few, own=settings: deeptime_model(own).fit((few[:-1], few[1:])), 1)
            result["deeptime"] = {"seconds": seconds, "eigenvalues": largest(exact.fetch_model().eigenvalues)}
        found[name] = result
    print(json.dumps(found))


if __name__ == "__main__":
    main()
