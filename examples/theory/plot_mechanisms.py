"""
What occlusion, shadow and antialiasing break
=============================================

Room and object of a rendered scene are two mechanisms: what one does to the pixels does not depend on the other, or
does it? The renderer is the decoder here, so the answer is about the scene and not about a network.
"""
# sphinx_gallery_thumbnail_number = 2

# %%
# Four factors of a room, two of the room itself and two of the object in it; shape and orientation stay.
import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.datasets import Rooms

SIZE, NAMES, BLOCKS = 24, ("floor_hue", "wall_hue", "object_hue", "scale"), [[0, 1], [2, 3]]
scenes = {
    "added up": Rooms(SIZE, antialias=1, shadow="none", occlusion=False),
    "occlusion": Rooms(SIZE, antialias=1, shadow="none"),
    "occlusion,\nantialiased": Rooms(SIZE, antialias=4, shadow="none"),
    "hard shadow": Rooms(SIZE, antialias=1, shadow="hard"),
    "soft shadow": Rooms(SIZE, antialias=1, shadow="soft"),
}


class Renderer:
    """A scene as a decoder of some of its factors."""

    def __init__(self, scene):
        self.scene = scene
        self.places = [scene.factor_names.index(name) for name in NAMES]
        self.columns = [scene.continuous.index(name) for name in NAMES]

    def values(self, z):
        found = np.tile([0.0, 0.0, 0.0, 1.0, 2.0, 8.0], (len(z), 1))  # a sphere, seen from the side
        found[:, self.places] = z
        return found

    def __call__(self, z):
        return self.scene.render(self.values(z), dtype=np.float64).reshape(len(z), -1)

    def jacobian(self, z):
        # Small steps: an edge that is not antialiased moves in jumps, and has no derivative where it does not.
        return self.scene.factor_jacobian(self.values(z), step=1e-5)[..., self.columns]


rng = np.random.default_rng(0)
latents = np.column_stack([rng.uniform(0.05, 0.95, (40, 3)), rng.uniform(0.8, 1.2, 40)])

# %%
# The Jacobian, one column per factor, as pictures: where does each factor move pixels? Occlusion takes from the floor
# what the object covers; antialiasing gives pixels on an edge to both sides, and an edge that moves a derivative; a
# soft shadow lets the scale of the object move pixels of the floor.
shown = np.array([[0.05, 0.4, 0.62, 1.05]])
figure, panels = plt.subplots(len(scenes), 5, figsize=(7.6, 7.6), layout="constrained")
for row, (title, scene) in zip(panels, scenes.items(), strict=True):
    decoder = Renderer(scene)
    row[0].imshow(scene.render(decoder.values(shown))[0])
    row[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
    moved = np.abs(decoder.jacobian(shown)[0]).reshape(SIZE, SIZE, 3, 4).sum(2)
    for axes, name, part in zip(row[1:], NAMES, np.moveaxis(moved, -1, 0), strict=True):
        axes.imshow((part / part.max()) ** 0.5, cmap="magma", vmin=0, vmax=1)
        if title == "added up":
            axes.set_title(name, fontsize=9)
    for axes in row:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
plt.show()

# %%
# The verdicts for the blocks room and object. Types D, M and S look at the derivatives at a sample; the swaps behind
# Type H₂ exchange the object between two samples.
#
# * *Added up*, every pixel is a sum of room and object: Type H₂ holds, and Type D fails, as both move the same pixels.
# * *Occlusion* is the opposite: at every sample each pixel belongs to one of the two, and swaps show that they
#   interact, as the object hides more or less of the room.
# * *Antialiasing* breaks Type D along the object's outline, and leaves Type M: supports overlap, none holds another.
# * A *hard shadow* adds nothing that a derivative could see; a *soft* one breaks Type D, and leaves Type M, too.
#
# Type S follows where Type D holds. Elsewhere it stays open: among so many pixels its gap is bounded, not computed, and
# the bound does not decide. Leakage, in the last printout beside random bases, tells how much two mechanisms share.
found = {
    title: isorep.decoder.mechanisms(Renderer(scene), latents, BLOCKS, samples=5, tolerances=(1e-4, 1e-3, 1e-2))
    for title, scene in scenes.items()
}
for title, result in found.items():
    states = {name: criterion.state for name, criterion in result.criteria.items() if name != "H3"}
    print(f"{' '.join(title.split()):24}", states)
print()
print(found["occlusion"])

# %%
# Leakage of the scene with a soft shadow, compared with random bases of the factors.
found["soft shadow"].plot_scores(width="double")
plt.show()

# %%
# The graph :math:`G_D` of one sample: two factors are joined where they move a common pixel, by a line as wide as the
# share of common pixels. Type D is no line between the room (left) and the object (right).
PLACES = {"floor_hue": (0, 1), "wall_hue": (0, 0), "object_hue": (1, 1), "scale": (1, 0)}
COLOURS = {"holds": "#2a6f97", "fails": "#c8553d"}
figure, panels = plt.subplots(1, len(scenes), figsize=(10, 3.1), layout="constrained")
for axes, (title, result) in zip(panels, found.items(), strict=True):
    matrix = np.abs(Renderer(scenes[title]).jacobian(shown)[0])
    moved = matrix > 1e-3 * matrix.max(0)
    for a in range(4):
        for b in range(a):
            common = (moved[:, a] & moved[:, b]).sum() / min(moved[:, a].sum(), moved[:, b].sum())
            if common:
                across = (a in BLOCKS[0]) != (b in BLOCKS[0])
                ends = np.array([PLACES[NAMES[a]], PLACES[NAMES[b]]]).T
                axes.plot(*ends, color="#c8553d" if across else "#999999", lw=0.8 + 5 * common, zorder=1)
    for name, place in PLACES.items():
        axes.scatter(*place, s=420, color="white", edgecolor="#333333", zorder=2)
        axes.annotate(name.split("_")[0], place, ha="center", va="center", fontsize=7, zorder=3)
    axes.set_title(title.replace("\n", " "), fontsize=9)
    for k, (name, symbol) in enumerate({"D": "D", "M": "M", "S": "S", "H2": "H₂"}.items()):
        state = result.criteria[name].state
        said = {"holds": "holds", "fails": "fails"}.get(state, "open")
        axes.text(
            0.33 * k, -0.55, f"{symbol}\n{said}", ha="center", va="top", fontsize=8, color=COLOURS.get(state, "grey")
        )
    axes.set_xlim(-0.35, 1.35)
    axes.set_ylim(-1.0, 1.3)
    axes.set_axis_off()
plt.show()
