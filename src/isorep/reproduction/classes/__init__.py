"""The 18-class simulation of Roeder, Metz and Kingma (2021): two classifiers agree up to a linear map.

And what becomes of it with fewer classes than the condition on their diversity asks for.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="classes",
    title="Classes: linear identifiability of classifiers",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
