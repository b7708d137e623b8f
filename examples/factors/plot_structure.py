"""
Are the features the true factors?
==================================

Six known factors and twelve latents: three factors have a latent of their own, one is in two latents, two share theirs.
`isorep.score_factors` says so in words, and shows what each score would be by chance: with shuffled rows, and in random
axes.
"""

# %%
# The latents are made by hand, so that the answer is known: two of them are noise, two hardly vary.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
n = 1000
sizes = {"floor": 10, "wall": 10, "object": 10, "scale": 8, "shape": 4, "orientation": 15}
factors = {name: rng.integers(size, size=n) for name, size in sizes.items()}
v = {name: (values - values.mean()) / values.std() for name, values in factors.items()}
latents = np.column_stack(
    [
        v["wall"],
        -v["floor"],
        v["shape"],
        v["object"],
        0.8 * v["object"],
        v["scale"] + v["orientation"],
        v["scale"] - v["orientation"],
        np.zeros((n, 5)),
    ]
)
latents = latents + rng.normal(size=latents.shape) * np.array([0.15] * 7 + [1.0] * 3 + [0.01] * 2)

found = isorep.score_factors(
    latents, factors, scores=["infomec", "mig", "sap", "modularity", "explicitness", "mcc", "linear_r2"], ladder=False
)
print(found)

# %%
# Normalised mutual information: a row with one dark cell is a factor in one latent, a column with one a latent about
# one factor.
found.plot_matrix(width="double")
plt.show()
print(found.factor_table())

# %%
# Scores are not on one scale, so each stands beside what shuffled rows give.
found.plot_scores(width="double")
plt.show()

# %%
# Scores that claim aligned axes are also compared with random axes of the same latents: a score that other axes reach
# as well shows no alignment.
print(found.axes_table())
