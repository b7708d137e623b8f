"""
Which score notices what
========================

The same latents rotated, duplicated, pruned, bent, with latents of noise: every score is a question, and this is what
it asks. `isorep.structure.stress` runs the same test on latents of your own.
"""

# %%
# Three factors, each in a latent of its own with a little noise. Left of the line are changes that leave every latent
# about the same single factor; right of it the factors are harder to find.
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
# A dot is a score that did not move by more than 0.05. No score is deaf and none hears everything: InfoM does not
# notice that a factor is gone, nor even that rows were shuffled; linear R² and InfoE do not notice a rotation; MIG and
# SAP take a duplicate for a failure.
rows, columns, moved = found.changes()
harmless = sum(found.harmless.values())
figure, axes = plt.subplots(figsize=(8.4, 5.4), layout="constrained")
image = axes.imshow(moved.T, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
for i in range(len(rows)):
    for j in range(len(columns)):
        large = abs(moved[i, j]) > found.tolerance
        ink = "white" if abs(moved[i, j]) > 0.55 else "black"
        axes.text(i, j, f"{moved[i, j]:+.2f}" if large else "·", color=ink, ha="center", va="center", fontsize=7)
axes.axvline(harmless - 0.5, color="black", linewidth=1)
axes.set_xticks(range(len(rows)), [name.replace("_", " ") for name in rows], rotation=40, ha="right")
axes.set_yticks(range(len(columns)), [f"{name} ({found.baseline[name]:.2f})" for name in columns])
figure.colorbar(image, label="change of the score")
plt.show()
