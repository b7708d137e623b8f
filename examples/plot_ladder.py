"""
Two trainings of one autoencoder, up the ladder
================================================

Are the latents of two seeds the same? Not dimension by dimension, but nearly so up to a rotation. The bars are held-out
errors (1 is no better than predicting the mean), the whiskers their intervals, the grey ticks what shuffled rows give.
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
# And draw the ladder.
rungs = result.rungs
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for place, (name, rung) in enumerate(rungs.items()):
    explains = name == result.verdict.rung
    axes.bar(place, rung.held_out.mean, color="#2a6f97" if explains else "#a9c6d8", width=0.6)
    axes.vlines(place, rung.interval.low, rung.interval.high, color="black", linewidth=2)
    axes.hlines(rung.null.mean, place - 0.38, place + 0.38, color="grey", linestyle=":", linewidth=2)
    axes.annotate(
        f"{rung.held_out.mean:.3f}", (place, rung.held_out.mean), (0, 4), textcoords="offset points", ha="center"
    )
axes.set_xticks(range(len(rungs)), [name.replace("_", "\n") for name in rungs])
axes.set_ylabel("held-out error (1: no better than the mean)")
axes.set_title("Two seeds of a digit autoencoder; dotted: shuffled pairings")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
