"""
Do features of sparse autoencoders recur?
=========================================

A sparse autoencoder explains activations by a few of many atoms. Are these atoms properties of the data, or of the
seed? Two seeds and a wider dictionary are trained on the same rows and matched one to one, beside what rotated
dictionaries match by chance.

Set ``ISOREP_TOKENS`` to the token embeddings of a model, such as
``model.safetensors::embeddings.word_embeddings.weight``, to run it on those; without it the rows are images of digits.
"""

# %%
# Rows are centred and scaled to length 1 in the root mean square.
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import isorep
from isorep.models import Group, Recipe, Schedule, train_sparse_autoencoders

tokens = os.environ.get("ISOREP_TOKENS")
rows = isorep.read(tokens).values[:] if tokens else load_digits().data
rows = rows - rows.mean(axis=0)
rows = rows / np.sqrt((rows**2).sum(axis=1).mean())

# %%
# Two seeds with 128 atoms and one dictionary with 256; at most 8 atoms are active in a row.
recipe = Recipe(epochs=60, batch=128, groups=Group("adam", 3e-3), schedule=Schedule("linear", start=0.5))
narrow = train_sparse_autoencoders(rows, 128, k=8, seeds=[0, 1], recipe=recipe)
(wide,) = train_sparse_autoencoders(rows, 256, k=8, seeds=[2], recipe=recipe)
models = [each.module for each in (*narrow, wide)]
codes = [model.activations(rows) for model in models]

# %%
# Seed against seed. The share that recurs is read beside its chance level, and so is the mean cosine.
seeds = isorep.dictionaries.recurrence(*models[:2], activations=codes[:2])
print(seeds)

# %%
# Recurrence of both similarities, and against how often atoms are active: bins with 95% intervals.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
seeds.plot_scores(ax=left)
seeds.plot_components(ax=right)
plt.show()

# %%
# Seed against width: how many atoms of the narrow dictionary are found again, or split, in the wide one?
widths = isorep.dictionaries.recurrence(models[0], models[2], activations=[codes[0], codes[2]])
print(widths.verdict, "\n")
print("\n".join(widths.findings()))
