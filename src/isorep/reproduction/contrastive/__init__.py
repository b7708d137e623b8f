"""Contrastive (section 5.2 of Roeder et al. 2021): two trainings agree up to a linear map, the more the better trained.

Contrastive predictive coding of image patches: f of the upper half, g of the lower, against steps, images and width.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="contrastive",
    title="Contrastive: alignment grows with training, data and width",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
