"""
Translate instead of embedding again
====================================

Last year's model embedded a large store; the new model is better. A sample that both models have embedded is enough to
fit a map between them. What does it lose, and how many pairs does it take?
"""

# %%
# Two autoencoders of handwritten digits stand for the two models: another width, another seed.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.models.digits import load_digit_images, train_autoencoder

images = load_digit_images()
old = train_autoencoder(images, latents=24, epochs=40, seed=0).encode(images)
new = train_autoencoder(images, latents=32, epochs=40, seed=1).encode(images)

# %%
# One call fits all maps, chooses among them, and tests on rows that chose nothing.
result = isorep.translate(old, new)
print(result)

# %%
# The map is kept in a file, and says when vectors do not look like those it was made for.
print(result.translator)
print(result.translator.drift(old[:200]))
print(result.translator.drift(3 * old[:200]))

# %%
# Left: translated queries find their own item almost as surely as native ones, and most of the same neighbours.
# Right: the error falls until there are some hundred pairs, and hardly any more after that.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
found = result.retrieval
series = (
    ("own item, translated", found.maps[result.best].recall, "#2a6f97", "-"),
    ("neighbours kept, translated", found.maps[result.best].overlap, "#2a6f97", "--"),
    ("own item, untranslated", found.floor.recall, "#c8553d", "-"),
)
for name, shares, color, style in series:
    left.plot(list(shares), list(shares.values()), style, color=color, marker="o", label=name)
left.set_xscale("log")
left.set_xticks(found.at, [str(k) for k in found.at])
left.set_ylim(-0.03, 1.03)
left.set_xlabel("k")
left.set_ylabel("share")
left.set_title(f"{found.queries} queries among {found.corpus} vectors", fontsize=10)
left.legend(frameon=False, fontsize=9, loc="center right")

points = [(point.pairs, point.error) for point in result.curve.points]
right.plot(*np.transpose(points), color="#2a6f97", marker="o")
right.axvline(result.curve.enough, color="#888", linewidth=0.8)
right.text(result.curve.enough * 1.1, right.get_ylim()[1] * 0.9, f"{result.curve.enough} are enough", fontsize=9)
right.set_xscale("log")
right.set_ylim(0)
right.set_xlabel("pairs")
right.set_ylabel("RMS error, radii of the new vectors")
right.set_title(f"learning curve of the {result.best.replace('_', '-')} map", fontsize=10)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
