"""
Matching single units, and the noise ceiling of RSA
===================================================

Two networks may share some units and not others, and have different numbers of them. Matching a share of the units
shows how many recur; chance says which share is no accident.
"""

# %%
# Twelve of the 30 units of one network recur among the 40 of another, with noise; the others are unrelated.
import matplotlib.pyplot as plt
import numpy as np

import isorep

rng = np.random.default_rng(0)
one = rng.normal(size=(400, 30))
other = np.hstack([one[:, :12] + 0.4 * rng.normal(size=(400, 12)), rng.normal(size=(400, 28))])
other = other[:, rng.permutation(40)]
shares = np.arange(1, 11) / 10
found = [isorep.similarity.one_to_one(one, other, overlap=share, permutations=50) for share in shares]
soft = [isorep.similarity.soft_matching(one, other, overlap=share) for share in shares]

# %%
# Up to 12 of 30 units the mean correlation of matched pairs stays high, far above that of shuffled rows. Then it falls.
# Soft matching counts mass, of which twelve of 40 units hold 0.3: it falls from there on.
figure, axes = plt.subplots(figsize=(5.4, 3.2), layout="constrained")
axes.plot(shares, [each.value for each in found], "o-", color="#0b65b3", label="one to one, mean correlation")
axes.plot(shares, [each.details["correlation"] for each in soft], "s-", color="#c8540a", label="soft matching")
axes.plot(shares, [each.null.mean for each in found], "--", color="#545c69", label="one to one, chance")
axes.axvline(12 / 30, color="#545c69", lw=0.8, ls=":")
axes.set(xlabel="share of units that is matched", ylabel="correlation", ylim=(0, 1))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8)
plt.show()

# %%
# The pairs that were found, by their correlation: twelve stand apart.
print(np.round(found[-1].details["correlations"], 2))

# %%
# Runs of one model differ, so that no model reaches 1 with all of them. The ceiling lies between two bounds; a model of
# the common part reaches it, one of half of its columns does not.
truth = rng.normal(size=(80, 6))
runs = {f"seed {seed}": truth + 0.7 * rng.normal(size=truth.shape) for seed in range(6)}
models = {"all columns": truth, "half of them": truth[:, :3], "unrelated": rng.normal(size=(80, 6))}
ceilings = {name: isorep.similarity.noise_ceiling(runs, model, permutations=50) for name, model in models.items()}
for each in ceilings.values():
    print(each.sentence)

figure, axes = plt.subplots(figsize=(4.6, 2.8), layout="constrained")
bounds = next(iter(ceilings.values()))
axes.axhspan(bounds.lower, bounds.upper, color="#d3d8df", label="noise ceiling")
for place, (_name, each) in enumerate(ceilings.items()):
    axes.plot(np.full(6, place), each.model_by_run, "o", ms=3, color="#545c69")
    axes.plot(place, each.model, "D", color="#0b65b3")
axes.set_xticks(range(3), list(models))
axes.set(ylabel="RSA with each run", xlim=(-0.5, 2.5))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, fontsize=8, loc="upper right")
plt.show()
