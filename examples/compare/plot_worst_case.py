"""
The worst case, from both sides
===============================

Near-identifiability asks for one rigid motion that serves *every* example. The least-squares motion serves the average;
a weighted one serves the worst, and a lower bound shows that no motion can do better.
"""

# %%
# One run is a bent copy of the other: gently, or strongly.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, size=(1500, 2)) * [2.0, 0.6]
runs = {bend: np.column_stack([x[:, 0], x[:, 1] + bend * x[:, 0] ** 2]) for bend in (0.1, 0.5)}
figure, panels = plt.subplots(1, 2, figsize=(6.9, 2.6), layout="constrained", sharey=True)
for axes, (bend, y) in zip(panels, runs.items(), strict=True):
    axes.scatter(*x.T, s=2, color="#0b65b3", label="source")
    axes.scatter(*y.T, s=2, color="#c2570c", label="target")
    axes.set(aspect="equal", title=f"bend {bend}")
panels[0].legend(frameon=False, markerscale=4, fontsize=8)
plt.show()

# %%
# The lower and the upper bound coincide at this scale: the best possible error is known. The worst row of least squares
# is farther out, and the lower bound from distances alone is weaker.
found = {bend: isorep.worst_case(x, y) for bend, y in runs.items()}
figure, panels = plt.subplots(2, 1, figsize=(6.9, 4), layout="constrained")
for axes, (bend, each) in zip(panels, found.items(), strict=True):
    each.plot_scores(axes)
    axes.set_title(f"bend {bend}: between {each.lower:.4f} and {each.upper:.4f}", loc="left", fontsize=9, pad=24)
plt.show()
