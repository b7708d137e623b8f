"""Slots (experiments of mechanistic independence): is each true slot found as one, and up to what overlap?

Autoencoders of outputs that several slots write, trained with and without a penalty on shared outputs.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="slots",
    title="Slots: mechanisms identify where independence cannot",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
