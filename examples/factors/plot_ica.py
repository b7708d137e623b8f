"""
Which components are reproducible?
==================================

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
print(f"{ica.gaussian_.sum()} of {dimensions} components are indistinguishable from Gaussian noise")

# %%
# The same question answered by doing it again: ten bootstrap samples, each from a start of its own.
found = isorep.stability(x, n_restarts=10)
print(found.reading)

# %%
# How well each component is found again: the median correlation with its match, and the single refits as small dots.
found.plot_components(width="double")
plt.show()

# %%
# Why: the curvature of the contrast in the plane of every two components. The pale block is the Gaussian space, where
# directions are free to turn.
found.plot_matrix()
plt.show()
