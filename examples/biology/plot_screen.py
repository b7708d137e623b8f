"""
Maps of a screen, and what a component is
=========================================

Batch-driven components can be left out. Maps of the rows before and after show what that does, and the card of a
component shows what it stands for. The screen is simulated, so its factors are known.
"""

# %%
# Eight biological and eight technical factors, mixed into 32 named features. The treatment shifts two biological
# factors; every plate shifts the technical ones anew.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import isorep
from isorep.datasets import simulate_batches

screen = simulate_batches(batches=12, rows=150, random_state=0)
table = pd.DataFrame(screen.values, columns=[f"feature_{j}" for j in range(screen.values.shape[1])])
table["treatment"] = np.where(screen.perturbed, "drug", "DMSO")
table["plate"] = [f"plate {j + 1:02}" for j in screen.batch]
result = isorep.deconfound(table, "treatment", "plate", classifiers="logistic", n_restarts=3)
print(result.verdict.sentence)

# %%
# How many axes to keep is chosen inside the training plates: the score rises until the factors are in, and noise
# adds nothing.
result.plot_dimensions()
plt.show()

# %%
# The rows before and after the batch-driven components are left out, by plate (above) and by treatment (below).
figure, axes = plt.subplots(2, 2, figsize=(6.9, 5.4), layout="constrained")
for row, colour in zip(axes, ("batch", "label"), strict=True):
    for ax, filtered in zip(row, (False, True), strict=True):
        result.plot_maps(ax=ax, filtered=filtered, colour=colour)
plt.show()

# %%
# The component that follows the treatment most: its correlations with the features, and how much of it treatment and
# plate explain.
best = max(result.components, key=lambda component: component.label_r2)
shown = sorted(best.loadings, key=lambda loading: loading.r)
figure, ax = plt.subplots(figsize=(3.35, 2.6), layout="constrained")
ax.barh([loading.feature for loading in shown], [loading.r for loading in shown], color="#0b65b3")
ax.axvline(0, color="#15181e", linewidth=0.8)
ax.set_xlabel(f"correlation with component {best.number}", fontsize="small")
ax.tick_params(labelsize="small")
plt.show()
print(f"share of its variance between treatments {best.label_r2:.2f}, between plates {best.batch_r2['plate']:.2f}")

# %%
# It is one of the two affected factors.
component = result.transform(table.filter(like="feature_"))[:, best.number]
affected = [abs(np.corrcoef(component, screen.factors[:, j])[0, 1]) for j in range(screen.affected)]
print(f"correlation with the affected factors: {affected[0]:.2f} and {affected[1]:.2f}")
