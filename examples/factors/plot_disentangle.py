"""
What varies in these images?
============================

Rendered rooms have six factors: three colours, a scale, a shape and the angle of the camera. A plain autoencoder knows
none of them. Its latents, pruned to what the decoder responds to and turned by ICA, find most of them again.
"""

# %%
# Two trainings from different weights, and which components of the first are found again in the second.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.datasets import Rooms

rooms = Rooms(size=16, colour="ramp").draw(2000, seed=0)
images = rooms.images()
found = isorep.disentangle(images, size=16, network="dense", latents=10, steps=800, batch=64, n_seeds=2)
print(found)

# %%
# Each row is one component of the first image, moved from its 5% to its 95% quantile while the others stay.
components = found.transform(images)
low, high = np.quantile(components, [0.05, 0.95], axis=0)
order = [component.name for component in found.components]
figure, axes = plt.subplots(len(order), 8, figsize=(7, 0.9 * len(order)), layout="constrained")
for row, name in zip(axes, order, strict=True):
    place = int(name.removeprefix("ica"))
    moved = np.repeat(components[:1], 8, axis=0)
    moved[:, place] = np.linspace(low[place], high[place], 8)
    for cell, picture in zip(row, found.draw(moved), strict=True):
        cell.imshow(picture)
        cell.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %%
# Are they the factors? Here the factors are known, so they can be asked. Scale and shape share a component, which is
# what pixels of this size show of them.
factors = dict(zip(rooms.factor_names, rooms.factor_values.T, strict=True))
score = isorep.structure.infomec(factors, components)
print(f"InfoM {score.infom:.2f}, InfoE {score.infoe:.2f}, InfoC {score.infoc:.2f}")
score.plot_matrix()
plt.show()

# %%
# Which components are reproducible: the correlation of each with its match in the other training.
found.plot_components()
plt.show()
