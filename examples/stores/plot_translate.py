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
# The map can be saved to a file. It also checks whether vectors look like those it was fitted to.
print(result.translator)
print(result.translator.drift(old[:200]))
print(result.translator.drift(3 * old[:200]))

# %%
# New queries find their own item in the translated store almost as surely as in a native one.
result.plot_scores(width="double")
plt.show()

# %%
# The held-out error of every kind of map; the best one was chosen on other rows.
result.plot_ladder()
plt.show()

# %%
# The learning curve: the error falls until there are some hundred pairs, and hardly any more after that.
points = [(point.pairs, point.error) for point in result.curve.points]
figure, axes = plt.subplots(figsize=(3.35, 2.6), layout="constrained")
axes.plot(*np.transpose(points), color="#0b65b3", marker="o")
axes.axvline(result.curve.enough, color="#888", linewidth=0.8)
axes.text(result.curve.enough * 1.1, axes.get_ylim()[1] * 0.9, f"{result.curve.enough} are enough", fontsize=8)
axes.set_xscale("log")
axes.set_ylim(0)
axes.set_xlabel("pairs")
axes.set_ylabel("RMS error (RMS radii)")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
