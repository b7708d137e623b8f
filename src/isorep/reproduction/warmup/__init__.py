"""Warm-up (section 4.1 of the paper): two autoencoders differ less, the nearer their decoders are to isometries.

Orthogonal LeakyReLU autoencoders of handwritten digits; the leak controls the bi-Lipschitz constant of the decoder.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="warmup",
    title="Warm-up: the leak controls identifiability",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
