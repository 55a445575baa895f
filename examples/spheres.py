"""Moving spheres: a radiance field of a scene in time, what never moves in it, and a plane of space and time."""

import numpy as np
from look import QUICK, save
from matplotlib import pyplot

from gyrfalcon import fields

views, size, steps = (30, 24, 60) if QUICK else (150, 64, 1500)
scene = fields.moving_spheres(views=views, size=size)
rays = fields.Rays.from_poses(scene.images, scene.poses, scene.focal, times=scene.times)
model = fields.KPlanes((32, 64), times=25, time_smoothness=1e-2, transients=1e-6, random_state=0).fit(rays, steps=steps)

held = fields.moving_spheres(views=3, size=size, seed=7)
found = [model.render(pose, time=time)[0] for pose, time in zip(held.poses, held.times, strict=True)]
errors = [np.mean((rgb - image / 255) ** 2) for rgb, image in zip(found, held.images, strict=True)]
print(f"{model.n_parameters_} parameters, new views {-10 * np.log10(np.mean(errors)):.1f} dB")

_, axes = pyplot.subplots(1, 4, figsize=(9.5, 2.7))
still = model.static()
panels = {"truth": held.images[0], "field": found[0], "static()": still.render(held.poses[0])[0]}
for ax, (title, image) in zip(axes, panels.items(), strict=False):
    ax.imshow(image)
    ax.set_title(title)
axes[3].imshow(model.plane("xt"), aspect="auto", cmap="viridis")
axes[3].set_title('plane("xt")')
for ax in axes:
    ax.set_xticks([])
    ax.set_yticks([])
save(__file__)
