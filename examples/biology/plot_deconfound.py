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
result = isorep.deconfound(screen.values, treatment, plate, n_restarts=3)
print(result)

# %%
# Left: the independent components come nearest to the best that is possible (dashed), the likelihood ratio of the true
# biological factors. PCA+Rand is the control: as white as PCA+ICA, with arbitrary axes. Right: each independent
# component by the share that the plate and the treatment explain of its values or its spread. The two at the top left
# are the affected factors.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
result.plot_scores(ax=left)
left.axvline(screen.ceiling(), color="#15181e", linewidth=1, linestyle="--")
result.plot_components(ax=right)
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
again = isorep.deconfound(gaussian.values, gaussian.perturbed, gaussian.batch, n_restarts=0, classifiers="lightgbm")
print(again.to_frame()[["condition", "auroc", "auroc_se"]].round(3).to_string(index=False))
print(f"best possible: {gaussian.ceiling():.3f}")
