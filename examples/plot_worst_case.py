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
# The bracket closes: its two ends cannot be told apart here. Least squares leaves its worst row much further out, and
# distances alone would promise too little.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1, 1.2])
left.scatter(*x.T, s=2, color="#a9c6d8", label="source")
left.scatter(*y.T, s=2, color="#c8553d", label=f"target, bend {bend:.1f}")
left.set_aspect("equal")
left.legend(frameon=False, markerscale=4)
right.fill_between(bends, [f.lower for f in found], [f.upper for f in found], color="#2a6f97", alpha=0.4)
right.plot(bends, [f.upper for f in found], "o-", color="#2a6f97", label="best possible, bracketed")
right.plot(bends, [f.least_squares_sup for f in found], "s--", color="#c8553d", label="largest error of least squares")
right.plot(bends, [f.distortion / 2 for f in found], ":", color="grey", label="half the largest change of a distance")
right.set_xlabel("bend")
right.set_ylabel("largest error")
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
