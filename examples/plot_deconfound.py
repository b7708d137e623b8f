"""
Axes that survive a new batch
=============================

A screen is made in batches, and every batch leaves its mark on the embedding. Does a classifier that tells treated from
untreated wells still work on a plate it has never seen? Here the truth is known, so that the answer can be checked.
"""

# %%
# A simulated screen: of 16 independent factors 8 are biological, and a treatment shifts two of these. The other 8 are
# technical, shifted and scaled anew on every plate. An encoder mixes all of them into 32 dimensions, nearly without
# changing distances. Plates hold different shares of treated wells, so technical factors look useful, and are not.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.datasets import simulate_batches

screen = simulate_batches(batches=40, rows=100)
treatment = np.where(screen.perturbed, "treated", "control")
plate = np.array([f"plate {j + 1:02}" for j in screen.batch])

# %%
# One call: fit PCA and ICA on training plates, train gradient boosting on each condition, test on held-out plates.
result = isorep.deconfound(screen.values, treatment, plate, folds=10, n_restarts=3)
print(result)

# %%
# Left: the independent components come nearest to the best that is possible, the likelihood ratio of the true
# biological factors. PCA + Rand is the control: as white as PCA + ICA, with axes that mean nothing. Right: each
# independent component by what it says of the treatment and of the plate. Two stand apart at the top left: the affected
# factors.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
names = {"base": "Base", "pca": "PCA", "pca_ica": "PCA + ICA", "pca_rand": "PCA + Rand"}
colors = ["#6b7280", "#c2570c", "#0b65b3", "#007f5c"]
means = [result.mean("auroc", name) for name in names]
left.bar(range(4), [mean.value for mean in means], yerr=[mean.error for mean in means], color=colors, width=0.6)
left.axhline(screen.ceiling(), color="#15181e", linewidth=1, linestyle="--")
left.text(-0.4, screen.ceiling() + 0.01, "best possible", fontsize=9)
left.set_ylim(0.5, 1.0)
left.set_xticks(range(4), names.values())
left.set_ylabel("AUROC on held-out plates")

batch_name = next(iter(result.components[0].batch_r2))
of_batch = [component.batch_r2[batch_name] for component in result.components]
of_label = [component.label_r2 for component in result.components]
driven = np.array([component.batch_driven for component in result.components])
for mask, color, name in ((driven, "#c2570c", "driven by the plate"), (~driven, "#0b65b3", "not driven")):
    right.scatter(np.array(of_batch)[mask], np.array(of_label)[mask], color=color, s=28, label=name)
right.set_xlabel("share of variance that the plate explains")
right.set_ylabel("share that the treatment explains")
right.legend(frameon=False, fontsize=9)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The two leading components are the affected factors, up to sign.
order = np.argsort([-component.label_r2 for component in result.components])[:2]
components = result.transform(screen.values)[:, order]
both = np.abs(np.corrcoef(components, screen.factors[:, : screen.affected], rowvar=False)[:2, 2:])
print(np.round(both, 2))

# %%
# With Gaussian factors there are no axes to find, and ICA can do no better than a random rotation.
gaussian = simulate_batches(batches=20, rows=200, gaussian=True, random_state=0)
again = isorep.deconfound(gaussian.values, gaussian.perturbed, gaussian.batch, n_restarts=0, top=())
print({names[name]: round(again.mean("auroc", name).value, 3) for name in names}, round(gaussian.ceiling(), 3))
