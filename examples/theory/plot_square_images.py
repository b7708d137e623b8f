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
from isorep.datasets import Squares, render_squares, square_metric

softness, pixels, r_min, r_max = 0.02, 128, 0.1, 0.4
Squares(size=64, softness=softness).plot_factors([0.0, 0.0, 0.25], columns=8)
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
geometry.plot_scores()
plt.show()

# %%
# This concerns distances along the manifold of images. The ambient distance between squares that do not overlap no
# longer grows, however far apart they are: only the length of the path between them does.
shift = np.linspace(0, 1, 41)
images = render_squares(shift - 0.5, np.full_like(shift, 0.2), softness=softness, pixels=pixels, by_area=True)
images = images.reshape(len(shift), -1)
ambient = np.linalg.norm(images - images[0], axis=1)
along = np.sqrt(square_metric([0.2], softness=softness)[0][0]) * shift

figure, (left, right) = plt.subplots(1, 2, figsize=(6.9, 3.2), layout="constrained")
for k, (name, colour) in enumerate((("moving", "#0b65b3"), ("growing", "#c2570c"))):
    left.plot(r, metric[:, k, k] / sharp[k], "o", color=colour, label=f"{name}, measured")
    left.plot(r, exact[k] / sharp[k], "-", color=colour, lw=1, label=f"{name}, with corners")
left.axhline(1, color="grey", lw=0.8)
left.set_xlabel("half-side r")
left.set_ylabel("squared speed over the sharp form")
right.plot(shift, along, color="#0b65b3", label="along the images")
right.plot(shift, ambient, color="#c2570c", label="ambient")
right.axvline(0.4, color="grey", lw=0.8, ls=":")
right.set_xlabel("shift of the place, r = 0.2")
right.set_ylabel("distance")
for each in (left, right):
    each.legend(frameon=False, fontsize=8)
    each.spines[["top", "right"]].set_visible(False)
plt.show()
