"""
Five seeds and one that stopped early
=====================================

One training tells nothing about what another would give. Here a small autoencoder of handwritten digits is trained with
five seeds, and a sixth time with too few epochs. All pairs are compared at once, from one pass over the rows.
"""

# %%
# The runs: five latents of 1,797 digits each time. Only the seed differs, and the number of epochs of the last run.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.models import load_digit_images, train_autoencoder

images = load_digit_images()
runs = {f"seed {seed}": train_autoencoder(images, epochs=60, seed=seed).encode(images) for seed in range(5)}
runs["stopped early"] = train_autoencoder(images, epochs=2, seed=5).encode(images)

result = isorep.compare_many(runs)
print(result.verdict)

# %%
# How far each run is from each other one after the best rotation, on rows that no map was fitted to, near runs side by
# side. 1 is no better than predicting the mean.
result.plot_matrix(rung="rigid")
plt.show()

# %%
# The ladder over all ordered pairs: the dot is the mean, the line reaches from the closest pair to the farthest.
result.plot_ladder()
plt.show()
print(result.table())

# %%
# The share of every run that the mean of the others explains, and how many independent components recur in how many
# runs.
for name, share in zip(result.names, result.consensus.shares, strict=True):
    print(f"{name:14s} {share:.2f}")
found = [family.runs for family in result.components.families]
print({f"in {runs} runs": found.count(runs) for runs in sorted(set(found), reverse=True)})

# %%
# The consensus is a space for all runs: rotations into it, and the mean of what they map there. Along each of its axes,
# how far do the runs agree?
result.plot_components()
plt.show()
shared = result.consensus.average(list(runs.values()))
print(f"{shared.shape[1]} axes, agreement along them: {np.round(result.consensus.agreement, 2)}")
