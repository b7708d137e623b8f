"""Pairs of trained models (Table 1 of Nelson et al. 2026): up to which group are two trainings the same?

Pairs are trained here, or named by the user in a TOML file: model folders, code with weights, or ready representations.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="pretrained",
    title="Pairs of trained models: the same up to a linear map, a rigid map, or ICA alone",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch", "transformers"),
)
