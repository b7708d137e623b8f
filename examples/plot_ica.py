"""
Which components come back
==========================

ICA always returns as many components as there are dimensions. Some are properties of the data; others are directions of
Gaussian noise that happened to look best in this sample. The fit names those, and refits on resampled rows confirm it.
"""

# %%
# Twelve sources, sub- and super-Gaussian, and six Gaussian ones, mixed by a matrix of condition number 1,000.
import warnings

import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
n, dimensions = 8000, 18
laplace, uniform = rng.laplace(size=(n, 6)), rng.uniform(-1, 1, size=(n, 6))
sources = np.column_stack([laplace, uniform, rng.normal(size=(n, 6))])
left, right = (np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0] for _ in range(2))
x = (sources / sources.std(0) @ (left * np.geomspace(1, 1e-3, dimensions) @ right)).astype(np.float32)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", isorep.GaussianityWarning)
    ica = isorep.ICA().fit(x)
print(f"{ica.gaussian_.sum()} of {dimensions} components cannot be told from Gaussian noise")

# %%
# The same question answered by doing it again: ten bootstrap samples, each from a start of its own.
found = isorep.stability(x, n_restarts=10)
print(found.reading)

# %%
# Left: second variation of the contrast in the plane of every two components. The pale block is the Gaussian space:
# directions inside it are free to turn. Right: how well each component comes back.
figure, (left_axes, right_axes) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
image = left_axes.imshow(ica.conditioning_, cmap="Blues", vmin=0)
left_axes.set_xlabel("component")
left_axes.set_ylabel("component")
left_axes.set_title("conditioning of every plane", fontsize=10)
figure.colorbar(image, ax=left_axes, shrink=0.9)
colors = np.where(found.gaussian, "#c8553d", "#2a6f97")
right_axes.bar(np.arange(dimensions), found.scores, color=colors)
right_axes.set_xticks(range(0, dimensions, 3))
right_axes.set_ylim(0, 1.02)
right_axes.set_xlabel("component, strongest first")
right_axes.set_ylabel("median correlation with its match")
right_axes.set_title("stability over ten refits (red: named Gaussian)", fontsize=10)
right_axes.spines[["top", "right"]].set_visible(False)
plt.show()
