"""Layers of language models (section 5.3 of Roeder et al. 2021): is the last layer the most similar across trainings?

Small GPTs trained here on the prose of Python's library, or real model folders; layer by layer, up to which group.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="layers",
    title="Layers of language models: the last is identified, earlier ones need not be",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch", "transformers"),
)
