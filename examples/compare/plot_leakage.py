"""
Rows that belong together
=========================

Tokens of a document, wells of a plate and patches of an image resemble each other. If they are split over folds, a map
remembers the group instead of learning the relation, and unrelated runs seem to agree. ``groups=`` keeps them together.
"""

# %%
# Two *unrelated* representations of 60 documents, with 16 nearly equal rows per document.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
documents, dimensions = 60, 40
x, y = rng.normal(size=(2, documents, dimensions))


def compared(rows, grouped):
    """The ladder of both, with so many rows per document."""
    groups = np.repeat(np.arange(documents), rows)
    a, b = (z[groups] + 0.1 * rng.normal(size=(len(groups), dimensions)) for z in (x, y))
    rungs = ["signed_permutation", "rigid", "linear"]
    return isorep.compare(a, b, groups=groups if grouped else None, rungs=rungs, n_null=20)


# %%
# Without groups the error of a linear map falls far below chance, though there is nothing to find. With groups it
# stays at chance.
figure, panels = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for axes, title, grouped in zip(panels, ("without groups", "with groups"), (False, True), strict=True):
    result = compared(16, grouped)
    result.plot_ladder(ax=axes)
    axes.set_xlabel(f"{title}: held-out error (1: no better than the mean)")
    print(f"{title}: {result.verdict}")
plt.show()

# %%
# The more rows per document, the further the error falls.
for rows in (4, 8, 16):
    errors = [compared(rows, grouped).rungs["linear"].held_out.mean for grouped in (False, True)]
    print(f"{rows:2} rows per document: {errors[0]:.2f} without groups, {errors[1]:.2f} with groups")
