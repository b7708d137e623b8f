"""Disentanglement (section 4.3 of the paper): a plain autoencoder plus ICA against models made for the purpose.

Rendered rooms, sprites and squares at the scale of a laptop; the published data sets, where the files are, in full.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="disentanglement",
    title="Disentanglement with a plain autoencoder and ICA",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
