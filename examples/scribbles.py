"""Classes of all pixels from two scribbles, and from two more: probabilities sharpen as an image is marked further."""

import numpy as np
from look import save
from matplotlib import pyplot

from gyrfalcon import vision


def colors(image):
    """An extractor that needs no download: smoothed colors and how much they vary, for cells of four pixels."""
    cells = image.reshape(image.shape[0] // 4, 4, image.shape[1] // 4, 4, 3) / 255
    return {8: np.concatenate([cells.mean((1, 3)), 3 * cells.std((1, 3))], axis=2).transpose(2, 0, 1) + 0.01}


rows, columns = np.mgrid[:160, :240]
lake = ((columns - 150) / 70) ** 2 + ((rows - 90) / 45) ** 2 < 1
meadow = np.sin(rows / 3 + columns / 40) * np.sin(columns / 4 + rows / 60)
tint = np.where(lake[:, :, None], (80, 120, 110), (110, 120, 70))
image = np.clip(tint + 40 * (meadow * ~lake * columns / 240)[:, :, None], 0, 255).astype(np.uint8) // 8 * 8

marks = np.zeros((160, 240), dtype=np.int64)  # 0: not marked
marks[20:24, 20:120], marks[88:92, 110:180] = 1, 2
model = vision.PixelClassifier(colors, n_centers=100, length_scale=4.0)
model.observe(image, marks)
first = model.train().predict_proba(image)[:, :, 1]
more = np.zeros_like(marks)
more[140:144, 30:200], more[60:64, 130:170] = 1, 2
model.observe(image, more)
second = model.train().predict_proba(image)[:, :, 1]
for name, shares in (("two scribbles", first), ("four", second)):
    print(f"{name}: {100 * ((shares > 0.5) == lake).mean():.1f} % of the pixels are right")

_, axes = pyplot.subplots(1, 3, figsize=(9, 2.3))
shown = image.copy()
shown[(marks + more) == 1], shown[(marks + more) == 2] = (250, 180, 40), (240, 60, 60)
for ax, picture, title in zip(axes, (shown, first, second), ("scribbles", "after two", "after four"), strict=True):
    ax.imshow(picture, cmap="viridis", vmin=0, vmax=1)
    ax.set_title(title, fontsize=9)
    ax.set_axis_off()
save(__file__)
