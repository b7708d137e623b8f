"""
A real ensemble: five members of SpliceAI
=========================================

SpliceAI (Jaganathan et al. 2019) finds splice sites in DNA. Its authors trained one network five times and average the
predictions, which agree. Do the representations agree, too, and up to what? The members are read from their Keras files
without Keras; DNA with planted exons needs no genome.

The models are no part of isorep. Where they are missing this page only says how to get them; what comes out with
them is in the guide, :doc:`/guide/ensembles`.
"""
# sphinx_gallery_thumbnail_path = "images/ensembles-spliceai.png"

# %%
# The files come with the package of the authors, which need not be imported: ``pip install --no-deps spliceai==1.3.1``,
# or name their folder in the environment variable ``ISOREP_SPLICEAI``.
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import GroupKFold

import isorep
from isorep.models import SpliceAI, encode_dna, load_spliceai
from isorep.models.spliceai import LICENCE

print(fill(LICENCE, 100))
try:
    members = load_spliceai()
    print(f"{len(members)} members, {sum(w.numel() for w in members[0].parameters()):,} weights each")
except FileNotFoundError as missing:
    members = []
    print(fill(str(missing), 100))

# %%
# Ten sequences of introns and exons, letters drawn one by one. Every exon has the consensus of human splice sites:
# branch point, pyrimidine tract and CAG before it, CAG|GTAAGT at its end. In every intron the same nine letters of the
# donor stand once more, with no exon before them: decoys.
INTRON, EXON, TRACT = (0.29, 0.19, 0.20, 0.32), (0.28, 0.25, 0.28, 0.19), (0, 0.35, 0, 0.65)
KINDS = ("background", "acceptor", "donor", "decoy")
SEEN = 2500  # positions of a sequence that have 5,000 on either side


def draw_sequence(rng, length):
    """DNA, and what stands at every position."""

    def letters(count, shares):
        return "".join(rng.choice(list("ACGT"), count, p=shares))

    text, kinds = "", np.zeros(length + 2000, dtype=int)
    while len(text) < length:
        text += letters(rng.integers(120, 250), INTRON) + "CAGGTAAGT" + letters(rng.integers(120, 250), INTRON)
        kinds[text.rindex("CAGGTAAGT") + 2] = KINDS.index("decoy")
        text += "TACTAAC" + letters(8, INTRON) + letters(18, TRACT) + "TTGCAG"
        kinds[len(text)] = KINDS.index("acceptor")  # the first letter of the exon
        text += "G" + letters(rng.integers(90, 160), EXON) + "CAG"
        kinds[len(text) - 1] = KINDS.index("donor")  # its last letter
        text += "GTAAGT"
    return text[:length], kinds[:length]


def represent(networks, sequences, kinds, rng):
    """States at all sites and 400 other positions of each sequence, all probabilities, and what stands where."""
    states, probabilities, what, where = [], [], [], []
    for number, text in enumerate(sequences):
        here = kinds[number][networks[0].crop :][:SEEN]
        rows = np.sort(np.r_[np.flatnonzero(here), rng.choice(np.flatnonzero(here == 0), 400, replace=False)])
        dna = encode_dna(text)
        with torch.inference_mode():
            found = [network.depths(dna) for network in networks]
            for network, depths in zip(networks, found, strict=True):
                depths.append(network.combine(depths))
            tracks = torch.cat([torch.softmax(n.head(each[-1]), 1) for n, each in zip(networks, found, strict=True)])
        states.append([[state[0].T[rows].double().numpy() for state in depths] for depths in found])
        probabilities.append(tracks.numpy())
        what.append(here[rows])
        where.append(np.stack([np.full(len(rows), number), rows]))
    return np.concatenate(states, axis=2), np.stack(probabilities), np.concatenate(what), np.concatenate(where, axis=1)


if members:
    torch.manual_seed(0)
    networks = [*members, SpliceAI().eval()]  # the last one is untrained: what the input alone has in common
    rng = np.random.default_rng(0)
    sequences, kinds = zip(*(draw_sequence(rng, 10_000 + SEEN) for _ in range(10)), strict=True)
    states, tracks, what, (sequence, position) = represent(networks, sequences, kinds, rng)
    names = [f"member {number}" for number in range(1, 6)]
    print(f"{states.shape[2]} rows of {states.shape[3]} channels, {states.shape[1]} depths, {len(networks)} networks")

# %%
# The predictions are right, and nearly the same five times. Only the decoys divide the members.
if members:
    print("mean probability (over positions; standard deviation over members, mean of positions)")
    for kind in range(4):
        for site in (1, 2):
            found = tracks[sequence, :5, site, position][what == kind]
            print(f"  {KINDS[site]:8s} at {KINDS[kind]:10s} {found.mean():.5f} ({found.std(1).mean():.5f})")

# %%
# The representations, which are all the head sees, are not: the best linear map leaves an error of half an RMS radius.
# Sequences are groups, so that no map is judged on a sequence it was fitted to.
if members:
    result = isorep.compare_many(dict(zip(names, states[:5, -1], strict=True)), groups=sequence)
    print(result.table(), "\n")
    print(fill(str(result.verdict), 100), "\n")
    result.plot_matrix(rung="linear")
    plt.show()
    print(f"the mean of the others explains {result.consensus.share:.0%} of a member")
    print(f"agreement along the axes of the consensus: {np.round(result.consensus.agreement[:8], 2)}, ...")
    print(f"components: {sum(family.runs == 5 for family in result.components.families)} of 32 recur in all members")

# %%
# Nothing says that they must. The theorem on linear identifiability (Roeder et al. 2021) is about models that predict
# the same, and needs as many independent differences of classes as there are channels, 32. Three classes have two. And
# nearly the same probabilities are not the same log-odds: where all say "never", they say it with different force.
if members:
    heads = [member.head.weight[:, :, 0].double().numpy() for member in members]
    for name, head in zip(names, heads, strict=True):
        print(f"{name}: rank {np.linalg.matrix_rank(head - head.mean(0), rtol=1e-6)} of {head.shape[1]}")
    odds = [state @ (head - head.mean(0)).T for state, head in zip(states[:5, -1], heads, strict=True)]
    as_they_are = isorep.compare_many(odds, groups=sequence, rungs=("identity", "linear")).rungs
    print(f"log-odds, error as they are {as_they_are['identity'].mean:.2f}, linear {as_they_are['linear'].mean:.2f}")

# %%
# Where do they differ? Maps are fitted to all rows of the other sequences, and errors taken apart: in the two
# directions that the head reads and the thirty it does not, at the planted sites and elsewhere. The unit is always the
# radius of the part in question.


def apart(source, target, head):
    """Held-out linear errors of one pair: all, seen by the head, not seen, at sites, in the background."""
    predicted = np.empty_like(target)
    for fitted, held_out in GroupKFold(5).split(source, groups=sequence):
        predicted[held_out] = isorep.Linear().fit(source[fitted], target[fitted]).transform(source[held_out])
    directions = np.linalg.svd(head - head.mean(0))[2]
    site = (what == 1) | (what == 2)
    parts = [(slice(None), directions), (slice(None), directions[:2]), (slice(None), directions[2:])]
    parts += [(site, directions), (what == 0, directions)]
    found = []
    for rows, axes in parts:
        error, centred = (target - predicted)[rows] @ axes.T, (target[rows] - target[rows].mean(0)) @ axes.T
        found.append(np.sqrt((error**2).sum() / (centred**2).sum()))
    return found


if members:
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    errors = np.array([apart(states[i, -1], states[j, -1], heads[j]) for i, j in pairs])
    parts = ["everything", "seen by the head", "not seen by it", "at planted sites", "background"]
    for part, column in zip(parts, errors.T, strict=True):
        print(f"{part:17s} {column.mean():.3f}  ({column.min():.3f} to {column.max():.3f})")

# %%
# By depth: after the stem, which sees one letter and is linear in it, all members are one linear map apart. Later they
# are not, at any depth. It is not the input alone that they share: an untrained network explains next to nothing.
if members:
    places = ["stem", "stage 1", "stage 2", "stage 3", "stage 4", "sum of skips"]
    by_depth = {"rigid": [], "linear": [], "from an untrained network": [], "shuffled rows": []}
    different = ~np.eye(5, dtype=bool)
    for depth in range(len(places)):
        found = isorep.compare_many(list(states[:, depth]), groups=sequence, rungs=("rigid", "linear")).rungs
        by_depth["rigid"].append(found["rigid"].rms[:5, :5][different].mean())
        by_depth["linear"].append(found["linear"].rms[:5, :5][different].mean())
        by_depth["from an untrained network"].append(found["linear"].rms[5, :5].mean())
        by_depth["shuffled rows"].append(found["linear"].null[:5, :5][different].mean())
    for name, line in by_depth.items():
        print(f"{name:26s}", " ".join(f"{value:.3f}" for value in line))

# %%
# Left: what the members predict for every site, their mean and range. Middle: the errors by depth. Right: where in the
# representation they come from.
if members:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.7), layout="constrained")
    start = 0
    for kind, site, colour in ((1, 1, "#2a6f97"), (2, 2, "#c8553d"), (3, 2, "#8a8a8a")):
        found = tracks[sequence, :5, site, position][what == kind]
        found = found[np.argsort(found.mean(1))]
        sites = np.arange(start, start + len(found))
        left.vlines(sites, found.min(1), found.max(1), color=colour, linewidth=1)
        left.plot(sites, found.mean(1), ".", color=colour, label=f"{KINDS[site]} at {KINDS[kind]}s", markersize=3)
        start += len(found) + 8
    left.set_xticks([])
    left.set_xlabel("planted sites")
    left.set_ylabel("probability, mean and range of members")
    left.legend(frameon=False, fontsize=8, loc="lower left")
    styles = (("#2a6f97", "o-"), ("#c8553d", "s-"), ("#6a994e", "d:"), ("grey", "--"))
    for (name, line), (colour, style) in zip(by_depth.items(), styles, strict=True):
        middle.plot(places, line, style, label=name, color=colour)
    middle.set_ylim(0, 1.3)
    middle.set_ylabel("held-out error, RMS radii of the target")
    middle.tick_params(axis="x", rotation=40)
    middle.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    right.barh(parts, errors.mean(0), xerr=np.abs(errors.mean(0) - [errors.min(0), errors.max(0)]), color="#2a6f97")
    right.axvline(1, linestyle="--", color="grey")
    right.invert_yaxis()
    right.set_xlabel("linear error, radii of the part (20 pairs)")
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    plt.show()
