"""
Two trainings of one autoencoder, up the ladder
================================================

Are the latents of two seeds the same? Not dimension by dimension, but nearly so up to a rotation. Dots are held-out
errors (1 is no better than predicting the mean), grey bands are what shuffled rows give.
"""

# %%
# Train the same network twice on handwritten digits, with different seeds.
import matplotlib.pyplot as plt

import isorep
from isorep.models import load_digit_images, train_autoencoder

images = load_digit_images()
runs = [train_autoencoder(images, seed=seed).encode(images) for seed in (0, 1)]

# %%
# Compare them. The verdict is the smallest group that explains the pair about as well as the best one does.
result = isorep.compare(runs[0], runs[1])
print(result)

# %%
# Draw the ladder. The rung of the verdict is marked. ``width`` is that of one column of a page or of two; with ``ax=``
# the ladder is one panel of a figure of your own.
result.plot_ladder(width="double")
plt.show()

# %%
# The same numbers as a data frame.
print(result.to_frame().round(3).to_string(index=False))

# %%
# ``result.plot().savefig("comparison.pdf")`` puts the ladder together with the errors of single rows, the rows before
# and after alignment, and the held-out R² of every dimension.
