"""
Inner layers of two trainings
=============================

Theorem 1 of Nelson et al. (2026) is about any layer: cut a network there, and the rest is the decoder. The nearer the
rest is to an isometry, the nearer two trainings must be at that layer, up to a rigid motion. Here two kinds of small
classifiers of digits are trained twice each: plain ones, and ones whose rest is kept near an isometry.
"""

# %%
# Both kinds have three inner layers of 8 units. The second has leaky units that hardly bend, and weights that are
# pulled towards orthogonal ones.
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import isorep

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
labels = torch.tensor(labels)


def train(seed, unit, pull):
    torch.manual_seed(seed)
    parts = []
    for before, after in ((64, 8), (8, 8), (8, 8)):
        parts += [nn.Linear(before, after), unit()]
    network = nn.Sequential(*parts, nn.Linear(8, 10))
    inner = [part.weight for part in network[:-1] if isinstance(part, nn.Linear)]
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(15):
        for rows in torch.randperm(len(images)).split(128):
            loss = nn.functional.cross_entropy(network(images[rows]), labels[rows])
            loss = loss + pull * sum(((w @ w.T - torch.eye(8)) ** 2).sum() for w in inner)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


kinds = {
    "plain, tanh": lambda seed: train(seed, nn.Tanh, 0.0),
    "near an isometry": lambda seed: train(seed, lambda: nn.LeakyReLU(0.8), 1.0),
}

# %%
# Supervised training identifies the penultimate layer up to a linear map, so the rest is taken up to there, ``to="5"``.
# Ten classes fix nine directions of that layer at most, and it has eight: the two heads determine the map. With ten
# units or more the answer would be "not determined".
found = {name: isorep.decoder.layers(make(0), make(1), images, to="5", n_null=5) for name, make in kinds.items()}
for name, result in found.items():
    print(name)
    print(result.table(), "\n")
    print(result.end.sentence, "\n")

# %%
# Every layer of the second kind, up to a rigid motion with one scale.
found["near an isometry"].plot_scores(width="double")
plt.show()

# %%
# The constant of the rest falls towards the end, as less is left to do. Where the rest is near an isometry a rigid
# motion serves nearly as well as a linear map; in the plain network it does not. No bound says anything here: the map
# between the two ends is no isometry, and the stitching constant is far above what is needed (``layer.needed``).
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
places = ["linear 1", "unit 1", "linear 2", "unit 2", "linear 3"]
for (name, result), colour in zip(found.items(), ("#c8553d", "#2a6f97"), strict=True):
    left.plot(places, [layer.similarity_constant for layer in result.layers], "o-", color=colour, label=name)
    right.plot(places, [layer.scaled.mean for layer in result.layers], "o-", color=colour, label=f"{name}: rigid")
    right.plot(places, [layer.linear.mean for layer in result.layers], "s:", color=colour, label=f"{name}: linear")
left.set_yscale("log")
left.set_ylabel("constant of the rest, up to scale")
right.plot(places, [layer.null.mean for layer in result.layers], "--", color="grey", label="chance")
right.set_ylim(0, 0.6)
right.set_ylabel("held-out error (diameters)")
for axes in (left, right):
    axes.tick_params(axis="x", rotation=40)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
