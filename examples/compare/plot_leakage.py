"""
Rows that belong together
=========================

Tokens of a document, wells of a plate and patches of an image resemble each other. If they are split over folds, a map
remembers the group instead of learning the relation, and unrelated runs seem to agree. ``groups=`` keeps them together.
"""

# %%
# Two *unrelated* representations of 60 documents, with a growing number of nearly equal rows per document.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
documents, dimensions = 60, 40
x, y = rng.normal(size=(2, documents, dimensions))
copies = [4, 6, 8, 12, 16]
errors = {"without groups": [], "with groups": [], "chance": []}
for count in copies:
    groups = np.repeat(np.arange(documents), count)
    a, b = (z[groups] + 0.1 * rng.normal(size=(len(groups), dimensions)) for z in (x, y))
    for label, given in (("without groups", None), ("with groups", groups)):
        result = isorep.compare(a, b, groups=given, rungs=["linear"], n_null=5, n_boot=0)
        errors[label].append(result.rungs["linear"].held_out.mean)
    errors["chance"].append(result.rungs["linear"].null.mean)

# %%
# Without groups the error of a linear map falls far below chance, though there is nothing to find.
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
styles = {"without groups": ("#c2570c", "s-"), "with groups": ("#0b65b3", "o-"), "chance": ("grey", ":")}
for label, (color, style) in styles.items():
    axes.plot(copies, errors[label], style, color=color, label=label)
axes.set_xlabel("rows per document")
axes.set_ylabel("held-out error of the linear map\n(1: no better than the mean)")
axes.set_ylim(bottom=0)
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
