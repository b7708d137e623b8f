"""
Five seeds and one that stopped early
=====================================

One training tells nothing about what another would give. Here a small autoencoder of handwritten digits is trained with
five seeds, and a sixth time with too few epochs. All pairs are compared at once, from one pass over the rows.
"""

# %%
# The runs: five latents of 1,797 digits each time. Nothing but the seed differs, and the epochs of the last one.
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
# The ladder over all ordered pairs: the error on rows that maps have not seen; 1 is no better than predicting the mean.
# Lower is closer, and 1 is as bad as predicting the mean.
print(result.table())

# %%
# Left: how far each run is from each other one after the best rotation, near runs side by side. Middle: the share of
# every run that the mean of the others explains. Right: which independent components recur.
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.5, 3.6), layout="constrained")
order = list(result.clustering.order)
errors = result.rungs["rigid"].error[np.ix_(order, order)].copy()
np.fill_diagonal(errors, np.nan)
image = left.imshow(errors, cmap="Blues_r", vmin=0, vmax=1)
names = [result.names[run] for run in order]
left.set_xticks(range(len(order)), names, rotation=45, ha="right")
left.set_yticks(range(len(order)), names)
left.set_title("rigid error, row onto column", fontsize=10)
figure.colorbar(image, ax=left, shrink=0.9)
middle.barh(names, result.consensus.shares[order], color="#2a6f97")
middle.invert_yaxis()
middle.set_xlim(0, 1)
middle.set_xlabel("share of variance")
middle.set_title("explained by the other runs", fontsize=10)
families = result.components.families
member = np.full((len(order), len(families)), np.nan)
for place, family in enumerate(families):
    for run, component in family.members:
        member[order.index(run), place] = result.components.by_run[run].score[component]
right.imshow(member, cmap="Oranges", vmin=0, vmax=1)
right.set_yticks(range(len(order)), names)
right.set_xticks(range(len(families)), range(1, len(families) + 1))
right.set_xlabel("family of components")
right.set_title("components that recur", fontsize=10)
for axes in (left, middle, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The consensus is a space for all runs: rotations into it, and the mean of the images.
shared = result.consensus.average(list(runs.values()))
print(f"{shared.shape[1]} axes, agreement along them: {np.round(result.consensus.agreement, 2)}")
