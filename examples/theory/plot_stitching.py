"""
Stitching two networks
======================

Two trainings of one classifier of digits: does the second network understand the first one's hidden layer, and up to
which map? Closeness at the layer stands beside what the task feels.
"""

# %%
# Two seeds of one network.
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import isorep

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
labels = torch.tensor(labels)


def train(seed):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 10))
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(20):
        for rows in torch.randperm(len(images)).split(128):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimiser.step()
    return network


first, second = train(0), train(1)

# %%
# The first network up to its second hidden layer, a map, and the head of the second network.
found = isorep.decoder.stitch_models(first, second, images, labels, "3", names=("seed 0", "seed 1"))
print(found)

# %%
# Maps that know nothing are at chance; least squares comes close to the second network itself.
found.plot_scores(width="double")
plt.show()

# %%
# Closeness at the layer and loss: one dot per map.
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
for each in found.outcomes:
    if each.error is not None:
        axes.plot(each.error, each.loss, "o", label=each.name.replace("_", " "))
axes.axhline(found.parents[1].loss, color="grey", ls=":", label="seed 1 alone")
axes.set_yscale("log")
axes.set_xlabel("error at the layer (mean distances to the mean)")
axes.set_ylabel("loss on held-out rows")
axes.legend(frameon=False, fontsize=8)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
