"""Instances from five frames: two kinds of objects are shown, and found in the frames that follow."""

import numpy as np
from look import QUICK, save
from matplotlib import pyplot

from gyrfalcon import vision

PAINTS = {"brick": (205, 70, 55), "leaf": (60, 150, 75)}


def colors(image):
    """An extractor that needs no download: colors and their squares, at two strides."""
    maps = {}
    for cell in (4, 8):
        rows, columns = image.shape[0] // cell, image.shape[1] // cell
        means = image[: rows * cell, : columns * cell].reshape(rows, cell, columns, cell, 3).mean((1, 3)) / 255
        maps[2 * cell] = np.concatenate([means, means**2, np.full((rows, columns, 1), 0.5)], axis=2).transpose(2, 0, 1)
    return maps


def frame(seed, shape=(120, 160)):
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    shade = 110 + 30 * np.sin(rows / 25 + random.uniform(0, 6)) * np.cos(columns / 35 + random.uniform(0, 6))
    image = np.repeat(shade[:, :, None] // 4 * 4, 3, axis=2)
    masks = {}
    for slot, name in enumerate(PAINTS if random.random() < 0.5 else reversed(PAINTS)):
        middle = random.uniform(35, shape[0] - 35), 80 * slot + random.uniform(30, 50)
        across, down = (columns - middle[1]) / random.uniform(13, 20), (rows - middle[0]) / random.uniform(20, 32)
        masks[name] = np.maximum(abs(across), abs(down)) < 1 if name == "brick" else across**2 + down**2 < 1
        image[masks[name]] = random.normal(PAINTS[name], 8)
    return np.clip(image, 0, 255).astype(np.uint8), masks


teacher = vision.InstanceSegmenter(colors, n_centers=(200, 200, 100), n_batches=2, length_scales=(4.0, 4.0, 8.0))
for seed in range(5):
    teacher.observe(*frame(seed))
teacher.train()
tests = [frame(seed) for seed in range(100, 102 if QUICK else 120)]
found = [teacher.predict(image) for image, _ in tests]
score = vision.average_precision(found, [masks for _, masks in tests], overlap=0.5)
print(f"AP50 of masks: {score.by_class}")

_, axes = pyplot.subplots(2, 2, figsize=(7, 5.4))
for ax, (image, _), guesses in zip(axes.flat, tests * 2, found * 2, strict=False):
    ax.imshow(vision.draw(image, guesses, teacher.classes_))
    for guess in guesses:
        ax.text(guess.box[0], guess.box[1] - 3, f"{guess.label} {guess.score:.2f}", fontsize=8, color="white")
    ax.set_axis_off()
save(__file__)
