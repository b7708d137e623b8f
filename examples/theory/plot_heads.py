"""
What heads say about features
=============================

Two classifiers with the same distribution have features that are linear images of each other, if their heads are
diverse enough. Then the heads alone predict the map between the features, and no pair of features is needed for it.
"""

# %%
# Two classifiers of the handwritten digits with three features, linear ones, and ten classes: more than the four that
# the theorem needs at the least. They differ in their random start alone.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import isorep

pixels, digits = load_digits(return_X_y=True)
pixels = pixels / 16


def trained(seed, steps):
    network = MLPClassifier((3,), activation="identity", solver="lbfgs", alpha=1, max_iter=steps, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return network.fit(pixels, digits)


def features(network):
    return pixels @ network.coefs_[0] + network.intercepts_[0]


one, two = trained(0, 300), trained(1, 300)
f, other_f = features(one), features(two)
head, other_head = one.coefs_[-1].T, two.coefs_[-1].T  # one row a class
print([round(network.score(pixels, digits), 3) for network in (one, two)])

# %%
# Diversity first: the ten classes of each head span the three dimensions, with room to spare.
print(isorep.heads.diversity(head, weights=np.bincount(digits), features=f, bias=one.intercepts_[-1]))

# %%
# Then the map that the heads predict, compared with the one that least squares finds on paired features, and how close
# the two models are in distribution. The two runs ended in different optima and are not close, so that the theorem
# guarantees nothing; most of what a linear map can explain is predicted by the heads all the same.
found = isorep.heads.examine(
    head,
    other_head,
    bias=one.intercepts_[-1],
    other_bias=two.intercepts_[-1],
    features=f,
    other_features=other_f,
)
print(found.head_map)
print()
print(found.closeness)
found.head_map.plot_scores()
plt.show()

# %%
# Each coordinate of the second network's features, predicted from the first network's: by the heads, which have seen no
# pair of features, and by least squares.
predicted = found.head_map.transform(f)
regressed = isorep.Linear().fit(f, other_f).transform(f)
figure, panels = plt.subplots(2, 3, figsize=(9, 5.6), sharex=True, sharey=True, layout="constrained")
for row, (mapped, words) in enumerate(((predicted, "the heads"), (regressed, "least squares"))):
    for column, axes in enumerate(panels[row]):
        axes.axline((0, 0), slope=1, color="grey", linewidth=0.8)
        axes.scatter(other_f[:, column], mapped[:, column], c=digits, cmap="tab10", s=4, linewidths=0)
        share = np.corrcoef(other_f[:, column], mapped[:, column])[0, 1] ** 2
        axes.set_title(f"coordinate {column + 1} by {words}, r² {share:.2f}", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
for axes in panels[1]:
    axes.set_xlabel("second network")
for axes in panels[:, 0]:
    axes.set_ylabel("mapped from the first")
plt.show()

# %%
# A pair that divergence calls close
# ----------------------------------
#
# Eight classes on a circle, in two different orders, and features far out: both models are certain of every row, so
# that the Kullback-Leibler divergence is tiny. The features are not linear images of each other, and the log-odds say
# so.
rng = np.random.default_rng(0)
angles = 2 * np.pi * np.arange(8) / 8
circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
shuffled = circle[[0, 3, 6, 1, 4, 7, 2, 5]]
label = rng.integers(8, size=400)
here, there = (60 * each[label] + rng.normal(size=(400, 2)) for each in (circle, shuffled))
print(isorep.heads.closeness(here, there, circle, shuffled))

figure, panels = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
for axes, rows, title in zip(panels, (here, there), ("one model", "the other, KL below 1e-5 nats"), strict=True):
    axes.scatter(*rows.T, c=label, cmap="tab10", s=8, linewidths=0)
    axes.set_aspect("equal")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
