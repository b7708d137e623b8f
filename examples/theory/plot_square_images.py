"""
A square that moves and grows
=============================

Which processes are near an isometry, so that their factors can be found? Nelson et al. (2026) work out one: images of a
square at place :math:`p` with half-side :math:`r`. Its geometry is known in closed form, so here it is measured.
"""

# %%
# Images are blurred by a Gaussian of standard deviation :math:`\varsigma`: a sharp edge has no derivative.
import math

import matplotlib.pyplot as plt
import numpy as np

import isorep
from isorep.datasets import render_squares, square_metric

softness, pixels, r_min, r_max = 0.02, 128, 0.1, 0.4
places, radii = [-0.5, 0.0, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4]
figure, axes = plt.subplots(1, 4, figsize=(9, 2.4), layout="constrained")
for each, p, r in zip(axes, places, radii, strict=True):
    each.imshow(render_squares([p], [r], softness=softness, pixels=pixels)[0], cmap="gray", extent=(-1, 1, -1, 1))
    each.set_title(f"p = {p}, r = {r}")
    each.set_axis_off()
plt.show()


# %%
# The Jacobian gives the metric :math:`g=J^\top J`. For a sharp square :math:`g_{pp}=4rC` and :math:`g_{rr}=8rC`, with
# :math:`C=1/(2\varsigma\sqrt\pi)`, and :math:`g_{pr}=0`; corners change that by a share of :math:`\varsigma/r`, and
# with that term the closed form is exact.
def process(z):
    """Place and half-side to image; norms are those of functions on the plane."""
    return render_squares(z[:, 0], z[:, 1], softness=softness, pixels=pixels, by_area=True)


r = np.linspace(r_min, r_max, 13)
jacobians = isorep.decoder.jacobian(process, np.column_stack([np.full_like(r, 0.15), r]))
metric = np.einsum("noi,noj->nij", jacobians, jacobians)
sharp, exact = (square_metric(r, softness=softness, corners=corners) for corners in (False, True))
print("largest |g_pr| / g_pp:", np.abs(metric[:, 0, 1] / metric[:, 0, 0]).max())
for k, name in enumerate(("g_pp", "g_rr")):
    print(name, "over the sharp form:", np.round(metric[[0, -1], k, k] / sharp[k][[0, -1]], 3))
    print(name, "off the exact form by at most", np.abs(metric[:, k, k] / exact[k] - 1).max())

# %%
# In the coordinates :math:`(p,\sqrt2\,r)` the map is conformal: every direction is stretched by :math:`2\sqrt{Cr}`. Its
# constant, once the scale is balanced, is :math:`(r_{\max}/r_{\min})^{1/4}`.
rng = np.random.default_rng(0)
latents = np.column_stack([rng.uniform(-0.5, 0.5, 150), math.sqrt(2) * rng.uniform(r_min, r_max, 150)])
latents[:2, 1] = math.sqrt(2) * r_min, math.sqrt(2) * r_max
geometry = isorep.decoder.bilipschitz(lambda z: process(z / z.new_tensor([1.0, math.sqrt(2)])), latents)
print(f"constant up to scale {geometry.similarity_constant:.3f}, closed form {(r_max / r_min) ** 0.25:.3f}")

# %%
# That speaks of distances along the manifold of images. Between squares that do not overlap the ambient distance no
# longer grows, however far they are apart: only the path from one to the other tells.
shift = np.linspace(0, 1, 41)
images = render_squares(shift - 0.5, np.full_like(shift, 0.2), softness=softness, pixels=pixels, by_area=True)
images = images.reshape(len(shift), -1)
ambient = np.linalg.norm(images - images[0], axis=1)
along = np.sqrt(square_metric([0.2], softness=softness)[0][0]) * shift

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for k, (name, colour) in enumerate((("moving", "#2a6f97"), ("growing", "#c8553d"))):
    left.plot(r, metric[:, k, k] / sharp[k], "o", color=colour, label=f"{name}, measured")
    left.plot(r, exact[k] / sharp[k], "-", color=colour, lw=1, label=f"{name}, with corners")
left.axhline(1, color="grey", lw=0.8)
left.set_xlabel("half-side r")
left.set_ylabel("squared speed over the sharp form")
middle.plot(latents[:, 1] / math.sqrt(2), geometry.largest, ".", color="#c8553d", label="largest singular value")
middle.plot(latents[:, 1] / math.sqrt(2), geometry.smallest, ".", color="#2a6f97", label="smallest")
middle.plot(r, np.sqrt(sharp[0]), "k-", lw=0.8, label=r"$2\sqrt{Cr}$")
middle.set_xlabel("half-side r")
middle.set_ylabel(r"stretch in $(p,\sqrt{2}\,r)$")
right.plot(shift, along, color="#2a6f97", label="along the images")
right.plot(shift, ambient, color="#c8553d", label="ambient")
right.axvline(0.4, color="grey", lw=0.8, ls=":")
right.set_xlabel("shift of the place, r = 0.2")
right.set_ylabel("distance")
for each in (left, middle, right):
    each.legend(frameon=False, fontsize=8)
    each.spines[["top", "right"]].set_visible(False)
plt.show()
