"""
Content and style of two views
==============================

Two views of the same scenes keep some factors and draw others anew. From the pixels of the two views alone, the block
that they share is found, with its dimension; the factors show afterwards that it is the content.
"""

# %%
# Rooms rendered twice: colours and the scale of the object stay, shape and camera are drawn anew.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.datasets import Rooms

scene = Rooms(size=16, colour="ramp", shadow="none")
first, other = (scene.draw(2000, seed=seed).factor_values for seed in (0, 1))
second = first.copy()
second[:, 4:] = other[:, 4:]
views = {name: scene.render(values).reshape(2000, -1) for name, values in (("view 1", first), ("view 2", second))}
large = Rooms(colour="ramp", shadow="none")
figure, panels = plt.subplots(2, 5, figsize=(6.9, 3), layout="constrained")
for row, (name, values) in zip(panels, (("view 1", first), ("view 2", second)), strict=True):
    for axes, image in zip(row, large.render(values[:5]), strict=True):
        axes.imshow(image)
        axes.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()

# %%
# Held-out correlations of the components of both views, and the limit from which on a direction counts as content.
found = isorep.blocks.content_style(views, components=40, least=0.5)
print(found)
found.plot_scores(width="double")
plt.show()

# %%
# What the two blocks know of each factor: content holds what stayed, style what was drawn anew.
names = ["floor hue", "wall hue", "object hue", "scale", "orientation"]
factors = first[:, [0, 1, 2, 3, 5]]
scores = {
    "content": isorep.structure.linear_r2(factors, found.content).factors,
    "style of view 1": isorep.structure.linear_r2(factors, found.styles[0]).factors,
}
figure, axes = plt.subplots(figsize=(5.4, 2.8), layout="constrained")
for offset, (block, colour) in zip(
    (-0.18, 0.18), (("content", "#0b65b3"), ("style of view 1", "#c8540a")), strict=True
):
    heights = np.maximum(list(scores[block].values()), 0)
    axes.bar(np.arange(5) + offset, heights, 0.34, label=block, color=colour)
axes.set_xticks(range(5), names)
axes.set_ylabel("held-out R² of the factor")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.2), ncols=2)
plt.show()

# %%
# A wrong pairing shares nothing, and isorep says so.
print(isorep.blocks.content_style([views["view 1"], np.roll(views["view 2"], 700, axis=0)], components=20).verdict)
