"""``isorep.deconfound``: do the axes of an embedding that tell biology survive a new batch?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica import ICA
from ..rows import Progress, no_progress
from ..settings import check_choice, check_counts, check_seed
from .classifiers import require_classifiers
from .components import Component, check_limit
from .evaluation import FILTERED, Asked, Plan, evaluate, filtered, final_components, paired_tests
from .inputs import SPLITS, TESTS, Inputs, control_values, make_tasks, open_inputs, open_rows, refuse_confounded
from .result import Condition, Data, Deconfounding, summarised
from .transforms import named
from .verdict import collect_caveats, judge


def deconfound(
    embedding: Any,
    label: Any,
    batch: Any,
    *,
    key: str | None = None,
    control: Any = None,
    each: bool = False,
    guides: Any = None,
    conditions: Sequence[str] = ("base", "pca", "pca_ica", "pca_rand"),
    transformers: Mapping[str, Any] | None = None,
    fit_on: Any = "train",
    n_components: int | str | None = None,
    split: str = "folds",
    folds: int = 5,
    n_seeds: int = 1,
    classifiers: Sequence[str] = ("lightgbm",),
    top: Sequence[float] = (0.25,),
    batch_limit: float = 0.1,
    n_restarts: int = 5,
    n_examples: int = 5,
    test: str = "sign_flip",
    random_state: int = 0,
    progress: Progress | None = None,
) -> Deconfounding:
    r"""Does ICA of an embedding separate biology from batch, so that a classifier works on batches it has not seen?

    Whitening and ICA are fitted without labels. A classifier learns on some batches to tell perturbed rows from
    controls, and its AUROC on the others is compared with what the embedding as it is, whitening alone and a random
    rotation of the whitened space give. Where factors of biology and of batch are independent and the model that made
    the embedding is near an isometry, ICA recovers them one by one (Nelson et al. 2026, Theorem 3), and trees, which
    split on one axis at a time, can leave the batch ones alone.

    Parameters
    ----------
    embedding : (n, d) array, Representation, data frame, AnnData or path
        Rows such as wells, images or cells. Features in different units are best standardised first: whitening keeps
        the axes of largest variance, and columns below 1e-4 of the median column's spread do not count.
    label : str or (n,) labels
        A column of the embedding's table or obs, or the labels themselves: booleans, numbers, text or categories.
    batch : str, (n,) labels, list of str, or dict of names to labels
        What to hold out, such as plates. Of several columns the first is held out; components are read against all.
    key : str, optional
        The obsm entry of AnnData (or ``X``), or the part of a file, as for :func:`isorep.read`.
    control : value or sequence of values, optional
        Which labels are controls. By default False, 0, or the one value that reads as one (``DMSO``, ``control``,
        ``negcon``, ``non-targeting`` and the like).
    each : bool
        Tell each other value from the controls on its own, instead of all together.
    guides : str or (n,) labels, optional
        Independent experiments on the same label, such as guides of a gene: each is a task of its own, and standard
        errors are over folds and guides.
    conditions : sequence of str
        Which of ``base`` (as it is), ``pca`` (whitened), ``pca_ica``, ``pca_rand`` (whitened and turned at random),
        ``ica_base`` (ICA without whitening), ``centred`` (each batch about its own mean) and ``harmony``.
    transformers : dict of str to scikit-learn transformer, optional
        Further conditions; they are cloned and fitted without labels.
    fit_on : {"train", "all"} or rows
        What transforms are fitted on: the training batches of each fold, all rows, or other rows altogether (an array,
        Representation or path), such as one patch an image.
    n_components : int or "all", optional
        Axes that whitening keeps: by default at most a tenth of the fitted rows.
    split : {"folds", "leave_one_out", "train_on_one"}
        Hold out a fold of batches at a time, one batch at a time, or all batches but one. Folds never split a batch and
        spread perturbed rows evenly.
    folds : int
        Number of folds, at most as many as batches.
    n_seeds : int
        Repeat with other folds, rotations and classifier seeds.
    classifiers : sequence of str
        ``lightgbm`` with the published parameters, ``logistic``, or both; the first decides tests and verdict.
    top : sequence of float
        Shares of most important features for the concentration; empty for none.
    batch_limit : float
        A component is batch-driven if batches explain more than this share of its variance, and more than the label.
    n_restarts : int
        Refits that tell whether components recur; 0 for none.
    n_examples : int
        Rows named at each end of a component.
    test : {"sign_flip", "wilcoxon"}
        Of paired differences between conditions; p-values are corrected after Holm.
    random_state : int
        Seed of folds, rotations, classifiers and samples.
    progress : callable, optional
        Called with a stage's name, the steps done and the steps in all.

    Returns
    -------
    Deconfounding

    References
    ----------
    .. [1] Nelson, W., Fumero, M., Karaletsos, T., Locatello, F. (2026). Statistical and structural identifiability in
           representation learning. ICLR. Section 4.4.
    .. [2] Hoyer, P. O. (2004). Non-negative matrix factorization with sparseness constraints. JMLR 5.
    .. [3] Büttner, M. et al. (2019). A test metric for assessing single-cell RNA-seq batch correction. Nat. Methods 16.
    .. [4] Nadeau, C. & Bengio, Y. (2003). Inference for the generalization error. Machine Learning 52.

    Examples
    --------
    >>> import numpy as np, isorep
    >>> rng = np.random.default_rng(0)
    >>> plate, treated = np.arange(600) % 10, rng.random(600) < 0.5
    >>> factors = rng.laplace(size=(600, 4))
    >>> factors[:, 0] += 2 * treated
    >>> mixed = factors @ rng.normal(size=(4, 4))
    >>> result = isorep.deconfound(mixed, treated, plate, classifiers="logistic", n_restarts=0)
    >>> result.mean("auroc", "pca_ica").value > 0.8
    True
    """
    given = dict(transformers or {})
    names = named(conditions, given)
    chosen, shares = require_classifiers(classifiers), _checked_shares(top)
    _check_components(n_components)
    check_choice("split", split, SPLITS)
    check_choice("test", test, TESTS)
    check_counts(folds=(folds, 2), n_seeds=(n_seeds, 1), n_restarts=(n_restarts, 0), n_examples=(n_examples, 0))
    check_seed(random_state)
    check_limit(batch_limit)
    if fit_on is None:
        raise InputError("fit_on is None; it takes train, all, or rows to fit on")
    tell = progress or no_progress
    inputs = open_inputs(embedding, label, batch, guides, key)
    refuse_confounded(inputs)
    controls = control_values(inputs.label, control)
    tasks = make_tasks(inputs, controls, each)
    inside = isinstance(fit_on, str) and fit_on in ("train", "all")
    elsewhere = None if inside else open_rows(fit_on, inputs.values.shape[1])
    asked = Asked(
        names=names,
        transformers=given,
        fit_on=fit_on if inside else "other",
        elsewhere=elsewhere,
        n_components=n_components,
        classifiers=chosen,
        top=shares,
        batch_limit=batch_limit,
        test=test,
        random_state=int(random_state),
    )
    plan = Plan.make(inputs, tasks, split, folds, n_seeds, random_state, each=each)
    found = evaluate(inputs, plan, asked, tell)
    tests = paired_tests(found, plan, asked)
    model: ICA | None = None
    components: tuple[Component, ...] = ()
    if "pca_ica" in names:
        tell("components", 0, 1)
        with found.timed("components"):
            model, components = final_components(inputs, asked, n_restarts, n_examples)
        tell("components", 1, 1)
    summaries = {
        name: Condition(
            name,
            found.dimensions[name],
            {by: summarised(found.scores_of(name, by), [f"{share:g}" for share in shares]) for by in chosen},
            found.mixings.get(name),
        )
        for name in names
    }
    return Deconfounding(
        conditions=summaries,
        tests=tests,
        components=components,
        filtered=filtered(found, plan, asked),
        scores=tuple(score for score in found.scores if score.condition != FILTERED),
        folds=tuple(plan.facts),
        tasks=tuple(dict.fromkeys(task.name for task in plan.tasks)),
        data=_data(inputs, controls),
        verdict=judge(summaries, tests, chosen[0]),
        caveats=tuple(collect_caveats(inputs, asked, plan, found, tests, model, components)),
        settings={
            "control": list(controls),
            "each": bool(each),
            "guides": None if inputs.guides is None else inputs.guides.title,
            "conditions": names,
            "transformers": {name: str(transformer) for name, transformer in given.items()},
            "fit_on": fit_on if inside else "other rows",
            "n_components": n_components,
            "split": split,
            "folds": int(folds),
            "n_seeds": int(n_seeds),
            "classifiers": list(chosen),
            "top": list(shares),
            "batch_limit": float(batch_limit),
            "n_restarts": int(n_restarts),
            "n_examples": int(n_examples),
            "test": test,
            "random_state": int(random_state),
        },
        model=model,
        place=inputs.place,
        seconds=found.seconds,
    )


def _data(inputs: Inputs, controls: tuple[str, ...]) -> Data:
    positive = np.isin(np.array(inputs.label.names), controls, invert=True)[inputs.label.codes]
    return Data(
        name=inputs.name,
        rows=len(inputs.values),
        columns=inputs.values.shape[1],
        positives=int(positive.sum()),
        label=inputs.label.title,
        control=controls,
        batch=tuple(column.title for column in inputs.batches),
        batches=inputs.batch.count,
        control_only=inputs.batch.count - len(np.unique(inputs.batch.codes[positive])),
    )


def _check_components(n_components: Any) -> None:
    if n_components is None or n_components == "all":
        return
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer) or n_components < 1:
        raise InputError(f"n_components is {n_components!r} and must be a whole number of at least 1, or all")


def _checked_shares(top: Any) -> tuple[float, ...]:
    shares = tuple([top] if isinstance(top, float) else top or ())
    if any(isinstance(share, bool) or not isinstance(share, float | int) or not 0 < share < 1 for share in shares):
        raise InputError(f"top is {top!r} and must hold shares between 0 and 1, such as 0.25")
    return tuple(float(share) for share in shares)
