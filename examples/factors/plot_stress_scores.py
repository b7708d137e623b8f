"""
Which score notices what
========================

The same latents rotated, duplicated, pruned, bent, with latents of noise: each score answers a different question.
``isorep.structure.stress`` runs the same test on latents of your own.
"""

# %%
# Three factors, each in a latent of its own with a little noise. Some changes leave every latent about the same single
# factor; with the others the factors are harder to find.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
n = 1000
factors = {"shape": rng.integers(4, size=n), "size": rng.integers(6, size=n), "hue": rng.uniform(size=n)}
latents = np.column_stack([values / values.std() for values in factors.values()]) + 0.1 * rng.normal(size=(n, 3))
found = isorep.structure.stress(factors, latents)
print(found)

# %%
# No score notices everything, and none notices nothing: InfoM does not change when a factor is gone, nor even when rows
# are shuffled; linear R² and InfoE do not change under a rotation; MIG and SAP take a duplicate for a failure. Changes
# with a star leave every latent about the same single factor.
found.plot_matrix(width="double")
plt.show()
