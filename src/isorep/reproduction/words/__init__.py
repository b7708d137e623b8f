"""Figure 1 of Roeder, Metz and Kingma (2021): two trainings of word embeddings coincide after a linear map.

Log-bilinear models of the prose in Python's standard library, or of the user's own text.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="words",
    title="Words: embeddings from two trainings",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("torch",),
)
