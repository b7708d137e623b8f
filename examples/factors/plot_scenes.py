"""
Rendered scenes with known factors
==================================

Rooms and sprites are rendered when they are asked for, need no download, and can be rendered at any value of their
factors. Each row of the sheets below varies one factor and keeps the others.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from isorep.datasets import Rooms, Sprites

Rooms().plot_factors([0.02, 0.36, 0.62, 1.0, 0, 8.0])
plt.show()

# %%
# Left: straight colour ramps instead of arcs of hue. One latent can follow a ramp; an arc takes two. Right: two
# sprites, of which the second lies over the first.
figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
Rooms(colour="ramp").plot_factors([0.1, 0.3, 0.8, 1.0, 1, -12.0], panels[0])
Sprites(count=2, colour="arc").plot_factors([2, 0.9, 10, 0.35, 0.5, 0.0, 1, 0.9, 60, 0.65, 0.5, 0.6], panels[1])
plt.show()

# %%
# What makes factors interact can be switched off: occlusion, shadow, antialiasing.
settings = {
    "default": {},
    "hard shadow": {"shadow": "hard"},
    "no shadow": {"shadow": "none"},
    "no antialiasing": {"antialias": 1},
    "no occlusion": {"occlusion": False, "shadow": "none"},
}
figure, panels = plt.subplots(1, 5, figsize=(10, 2.3), layout="constrained")
for axes, (title, options) in zip(panels, settings.items(), strict=True):
    axes.imshow(Rooms(**options).render([0.02, 0.36, 0.62, 1.1, 1, 8.0])[0])
    axes.set_title(title, fontsize=9)
    axes.axis("off")
plt.show()

# %%
# Which pixels each factor moves: the absolute Jacobian, summed over colours. Floor, wall and object hue share no pixel
# but those at their edges; scale and orientation move shading and outline.
scene = Rooms(antialias=4)
jacobian = scene.factor_jacobian([[0.02, 0.36, 0.62, 1.0, 0, 8.0]], step=0.02)[0]
figure, panels = plt.subplots(1, 5, figsize=(10, 2.3), layout="constrained")
for axes, name, column in zip(panels, scene.continuous, jacobian.T, strict=True):
    axes.imshow(np.abs(column).reshape(64, 64, 3).sum(axis=2) ** 0.5, cmap="magma")
    axes.set_title(name, fontsize=9)
    axes.axis("off")
plt.show()

# %%
# Factors can be drawn dependent, with a chosen correlation of their values.
pairs = Sprites(count=2).draw(2000, seed=0, correlation={("1.x", "2.x"): 0.8})
x = [pairs.factor_names.index(name) for name in ("1.x", "2.x")]
print(f"correlation asked for: 0.8, found: {np.corrcoef(pairs.factor_values[:, x].T)[0, 1]:.3f}")
