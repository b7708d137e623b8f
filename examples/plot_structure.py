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
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
image = axes.imshow(found.information.nmi, cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(12), found.information.latents)
axes.set_yticks(range(6), [f"{each.name}: {each.state}" for each in found.factors])
figure.colorbar(image, label="information / entropy of the factor")
plt.show()

# %%
# Scores are not on one scale. Shuffled rows (grey) ask whether there is any information. Scores that claim aligned axes
# stand beside random axes of the same latents, too (hollow): a score that other axes reach as well shows no alignment.
names = list(found.scores)
values = [found[name].value for name in names]
chance = [found[name].chance.mean for name in names]
errors = [
    [found[name].value - found[name].interval.low for name in names],
    [found[name].interval.high - found[name].value for name in names],
]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.barh(names, chance, color="lightgrey", label="chance (shuffled rows)")
turned = {name: found[name].axes.mean for name in names if found[name].axes is not None}
axes.plot(list(turned.values()), list(turned), "o", markerfacecolor="none", color="grey", label="chance (random axes)")
axes.errorbar(values, names, xerr=errors, fmt="o", markersize=4, label="score, 95 % interval")
axes.invert_yaxis()
axes.set_xlim(0, 1.02)
axes.legend(frameon=False, loc="lower right", fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
