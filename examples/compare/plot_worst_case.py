"""
The worst case, from both sides
===============================

Near-identifiability asks for one rigid motion that serves *every* example. The least-squares motion serves the average;
a weighted one serves the worst, and a lower bound tells that no motion can do better.
"""

# %%
# One run is a gently bent copy of the other.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, size=(1500, 2)) * [2.0, 0.6]
bends = np.linspace(0, 0.5, 8)
found = []
for bend in bends:
    y = np.column_stack([x[:, 0], x[:, 1] + bend * x[:, 0] ** 2])
    found.append(isorep.worst_case(x, y))

# %%
# The bracket closes: its two ends coincide at this scale. Least squares leaves its worst row much further out, and the
# lower bound from distances alone is much weaker.
figure, axes = plt.subplots(figsize=(6.9, 3.4), layout="constrained")
axes.fill_between(bends, [f.lower for f in found], [f.upper for f in found], color="#0b65b3", alpha=0.4)
axes.plot(bends, [f.upper for f in found], "o-", color="#0b65b3", label="best possible, bracketed")
axes.plot(bends, [f.least_squares_sup for f in found], "s--", color="#c2570c", label="largest error of least squares")
axes.plot(bends, [f.distortion / 2 for f in found], ":", color="grey", label="half the largest change of a distance")
axes.set_xlabel("bend")
axes.set_ylabel("largest error")
axes.set_ylim(bottom=0)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The two runs at the largest bend.
figure, axes = plt.subplots(figsize=(3.35, 2.6), layout="constrained")
axes.scatter(*x.T, s=2, color="#0b65b3", label="source")
axes.scatter(*y.T, s=2, color="#c2570c", label=f"target, bend {bend:.1f}")
axes.set_aspect("equal")
axes.legend(frameon=False, markerscale=4, fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
