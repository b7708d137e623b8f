"""Deconfounding (section 4.4 of the paper): do independent components carry over to batches never seen?

Three parts: simulated screens, where the right answer is known; wells of BBBC021; and, for those who have the files,
the published OpenPhenom embeddings of RxRx3-core.
"""

from ..experiment import Experiment
from .presets import SCALES
from .published import PAPER
from .summary import summarise
from .units import plan, run_unit

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="deconfounding",
    title="Deconfounding with ICA",
    paper=PAPER,
    scales=SCALES,
    plan=plan,
    run=run_unit,
    summarise=summarise,
    packages=("lightgbm",),
)
