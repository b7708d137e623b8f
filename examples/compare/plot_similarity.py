"""
Similarity indices and their chance level
=========================================

Two representations that share *nothing* look alike to most indices when they are wide and rows are few. The value of an
index says little without what shuffled rows would give; the corrected value can be read as it is.
"""

# %%
# Unrelated Gaussian representations of 300 rows, wider and wider, and five indices with 100 shuffled pairings each.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
widths = [4, 8, 16, 32, 64, 128, 256]
names = ["cca", "linear_r2", "cka", "cka_debiased", "mutual_knn"]
plain = {name: [] for name in names}
corrected = {name: [] for name in names}
for width in widths:
    x, y = rng.normal(size=(2, 300, width))
    found = isorep.similarity.indices(x, y, names=names, permutations=100)
    for name in names:
        plain[name].append(found[name].value)
        corrected[name].append(found[name].corrected)

# %%
# At the largest width every index lies within what chance gives, however high it is.
found.plot_scores(width="double")
plt.show()

# %%
# Plain values of CCA and R² tend to 1 and CKA follows; only the debiased one and the neighbours stay near zero by
# themselves. Corrected for chance, all do.
figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, values, title in zip(panels, (plain, corrected), ("plain", "corrected for chance"), strict=True):
    for name, mark in zip(names, "osD^v", strict=True):
        axes.plot(widths, values[name], f"{mark}-", markersize=4, label=name)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("dimensions, 300 rows")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("index of two unrelated representations")
panels[0].legend(frameon=False, fontsize=8)
plt.show()

# %%
# Layer by layer, the closest of many cells is judged against the closest that chance picks.
z = rng.normal(size=(300, 16))
one = {
    f"layer {k}": np.tanh(z @ rng.normal(size=(16, 24)) / 4) + 0.3 * k * rng.normal(size=(300, 24)) for k in range(5)
}
other = {
    name: values @ np.linalg.qr(rng.normal(size=(24, 24)))[0] + 0.2 * rng.normal(size=(300, 24))
    for name, values in one.items()
}
found = isorep.similarity.layers(one, other, permutations=100)
print(found)

found.plot_matrix(corrected=True)
plt.show()
