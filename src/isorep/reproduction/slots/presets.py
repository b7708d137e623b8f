"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    slots : tuple of int
        Numbers of slots of the published sweep.
    overlaps : tuple of int
        Outputs that neighbours share, of ``window``.
    failing : tuple of int
        Further overlaps for two slots, towards the point where the criteria themselves fail.
    strengths : tuple of float
        λ of the contrast; 0 (reconstruction alone) is always run, too.
    unit_strengths : tuple of float
        λ of the contrast at unit spread of the latents, which cannot shrink by larger latents; alone, and with slots
        that exchange directions between stages of the training.
    laws : tuple of str
        How latents are distributed: ``normal`` (published), ``dependent`` (normal with a Wishart covariance),
        ``uniform`` (independent and not Gaussian: where ICA has something to find).
    law_slots, law_overlaps : tuple of int
        Where laws other than normal are run.
    law_strengths : tuple of float
        λ of the contrast there; at unit spread it is as above.
    additive_overlaps : tuple of int
        Where additive decoders are run, for every number of slots.
    beyond : tuple of str
        What may keep SIS high where the contrast fails, as ``name@strength``.
    beyond_slots, beyond_overlaps : tuple of int
        Where that is run.
    seeds : int
        Trainings of every setting, in one program.
    restarts : int
        Trainings of which the one with the lowest training loss is taken.
    restart_seeds : int
        Trainings of the setting ``restarts``; all groups of ``restarts`` in turn are chosen from.
    dimension, window : int
        Latents and outputs of a slot.
    rows, test_rows : int
        Examples to train on, and others to score.
    steps, batch, learning_rate, schedule
        Adam; ``step`` divides the rate by ten at half of the steps, as published.
    high : float
        SIS from which slots count as found.
    threads : int
        Of torch while training; 0 leaves them as they are.
    """

    slots: tuple[int, ...]
    overlaps: tuple[int, ...]
    failing: tuple[int, ...] = ()
    strengths: tuple[float, ...] = (0.01, 1.0)
    unit_strengths: tuple[float, ...] = (0.003,)
    laws: tuple[str, ...] = ("normal", "dependent", "uniform")
    law_slots: tuple[int, ...] = (2,)
    law_overlaps: tuple[int, ...] = (0, 4)
    law_strengths: tuple[float, ...] = (1.0,)
    additive_overlaps: tuple[int, ...] = (0, 4, 8)
    beyond: tuple[str, ...] = ()
    beyond_slots: tuple[int, ...] = (2,)
    beyond_overlaps: tuple[int, ...] = ()
    seeds: int = 5
    restarts: int = 5
    restart_seeds: int = 15
    dimension: int = 3
    window: int = 20
    rows: int = 20_000
    test_rows: int = 2_000
    steps: int = 2_400
    batch: int = 64
    learning_rate: float = 3e-3
    schedule: str = "cosine"
    high: float = 0.8
    threads: int = 0


BEYOND = (
    "warm@1", "cooled@1", "unit_warm@0.003", "scaled@0.001", "sparsity@0.001", "orthogonal@0.001",
    "additive_contrast@0.01", "restarts@0.003",
)  # fmt: skip

SCALES = {
    "smoke": Preset(
        slots=(2,),
        overlaps=(0, 8),
        strengths=(1.0,),
        laws=("normal", "dependent"),
        law_overlaps=(0,),
        additive_overlaps=(8,),
        beyond=("warm@1", "restarts@0.003"),
        beyond_overlaps=(8,),
        seeds=2,
        restarts=2,
        restart_seeds=4,
        rows=3_000,
        test_rows=600,
        steps=45,
    ),
    "laptop": Preset(
        slots=(2, 3),
        overlaps=(0, 4, 8),
        beyond=BEYOND,
        beyond_overlaps=(8,),
        threads=2,
    ),
    "paper": Preset(
        slots=(2, 3, 5),
        overlaps=(0, 2, 4, 6, 8, 10),
        failing=(12, 14, 16, 17, 18, 19),
        law_slots=(2, 3, 5),
        law_overlaps=(0, 2, 4, 6, 8, 10),
        law_strengths=(0.01, 1.0),
        additive_overlaps=(0, 2, 4, 6, 8, 10),
        beyond=(*BEYOND, "hessian@0.01"),
        beyond_slots=(2, 3, 5),
        beyond_overlaps=(8, 14),
        rows=72_000,
        test_rows=8_000,
        steps=200_000,
        learning_rate=1e-3,
        schedule="step",
        threads=2,
    ),
}
