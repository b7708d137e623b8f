"""
Translate without pairs
=======================

Nothing was embedded by both models. If both mix the same independent, non-Gaussian factors, their components still
match. Otherwise no map should be given.
"""

# %%
# Two samples of the same factors, of other items, mixed by two models with other scales and widths.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
shapes = np.array([0.4, 0.8, 1.6, 3.2])
first, second = rng.normal(size=(4, 4)), 20 * rng.normal(size=(4, 6))
old = rng.gamma(shapes, size=(6000, 4)) @ first
new = rng.gamma(shapes, size=(5000, 4)) @ second + 100
result = isorep.translate_unpaired(old, new)
print(result)

# %%
# A few pairs, which the map was not fitted to, confirm it.
factors = rng.gamma(shapes, size=(50, 4))
checked = isorep.translate_unpaired(old, new, pairs=(factors @ first, factors @ second + 100))
print(checked.check)

# %%
# Gaussian factors have no directions of their own: the map is refused, whatever the number of rows.
refused = isorep.translate_unpaired(rng.normal(size=(6000, 4)) @ first, rng.normal(size=(5000, 4)) @ second)
print(refused.verdict)

# %%
# Each component beside its nearest alternative: matches that count lie far above the line.
figure, axes = plt.subplots(figsize=(3.35, 2.8), layout="constrained")
for each, colour, name in ((result, "#0b65b3", "skewed factors"), (refused, "#888", "Gaussian factors")):
    own, other = np.transpose([(match.distance, match.alternative) for match in each.matches])
    axes.scatter(own, other, color=colour, label=name)
axes.axline((1, 1), slope=1, color="#ccc", linewidth=0.8, zorder=0)
axes.set(xscale="log", yscale="log", xlabel="distance to the match", ylabel="to the nearest alternative")
axes.legend(frameon=False, fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
