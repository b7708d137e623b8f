"""``isorep.deconfound``: does ICA of an embedding separate biology from batch?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica import ICA, Cards, Whitening
from ..ica.whitening import columns_left_out, quietly
from ..rows import Progress, no_progress
from ..settings import check_choice, check_counts, check_seed, one_name
from .classifiers import require_classifiers
from .components import Component, final_components
from .controls import control_values
from .evaluation import FILTERED, Evaluation, Plan, conditions_of, evaluate, filtered, paired_tests
from .inputs import SPLITS, TESTS, Inputs, Request, make_tasks
from .reading import open_inputs, open_rows
from .result import CHANCE, LEVEL, Data, Deconfounding, PairedTest, judge
from .transforms import TRANSDUCTIVE, WHITE, condition_name, dimensions, named


def deconfound(
    embedding: Any,
    label: Any = None,
    batch: Any = None,
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
    keep_metadata: bool = False,
    label_key: Any = None,
    batch_key: Any = None,
    use_rep: str | None = None,
    progress: Progress | None = None,
) -> Deconfounding:
    r"""Test whether ICA of an embedding separates biology from batch, so that classifiers transfer to held-out batches.

    Whitening and ICA are fitted without labels. A classifier learns on some batches to distinguish perturbed rows from
    controls. Its AUROC on the other batches is compared with that of the embedding as it is, of whitening alone and of
    a random rotation of the whitened space. If factors of biology and of batch are independent and the model that made
    the embedding is near an isometry, ICA recovers them one by one (Nelson et al. 2026, Theorem 3), and trees, which
    split on one axis at a time, can ignore the batch axes.

    Parameters
    ----------
    embedding : (n, d) array, Representation, data frame, AnnData or path
        Rows such as wells, images or cells. Standardise features in different units first: whitening keeps the axes of
        largest variance, and columns below 1e-4 of the median column's spread are left out.
    label : str or (n,) labels
        Column of the embedding's table or obs, or the labels themselves: booleans, numbers, text or categories. Rows
        without a label or batch are left out, and a note counts them.
    batch : str, (n,) labels, list of str, or dict of names to labels
        Batches to hold out, such as plates. Of several columns the first is held out; components are tested against
        all.
    key : str, optional
        The matrix of AnnData (``X``, an obsm entry, ``layers/NAME``), or the part of a file, as for
        :func:`isorep.read`. Default: X, or the only entry of obsm where there is no X.
    control : value or sequence of values, optional
        Labels of controls. Default: False, 0, or the values that look like controls of one kind (``DMSO``,
        ``0.1% DMSO``, ``negcon``, ``non-targeting`` and similar).
    each : bool
        Compare each other value with the controls separately. Default: all together.
    guides : str or (n,) labels, optional
        Independent experiments on the same label, such as guides of a gene: each is its own task, and standard errors
        are over folds and guides.
    conditions : sequence of str
        Conditions to compare, from ``base`` (as it is), ``pca`` (whitened), ``pca_ica``, ``pca_rand`` (whitened and
        randomly rotated), ``ica_base`` (ICA without whitening), ``centred`` (batch means removed) and ``harmony``.
    transformers : dict of str to scikit-learn transformer, optional
        Further conditions; they are cloned and fitted without labels.
    fit_on : {"train", "all"} or rows
        Rows that transforms are fitted on: the training batches of each fold (default), all rows, or other rows (an
        array, Representation or path), such as one patch per image.
    n_components : int or "all", optional
        Number of axes that whitening keeps; default: at most a tenth of the fitted rows.
    split : {"folds", "leave_one_out", "train_on_one"}
        Hold out one fold of batches at a time (default), one batch at a time, or all batches but one. Folds never split
        a batch, and perturbed rows are spread evenly.
    folds : int
        Number of folds, at most the number of batches.
    n_seeds : int
        Number of repetitions, with other folds, rotations and classifier seeds.
    classifiers : sequence of str
        ``lightgbm`` with the published parameters, ``logistic``, or both; the first decides tests and verdict.
    top : sequence of float
        Shares of the most important features for the concentration; empty for none.
    batch_limit : float
        A component is batch-driven if batches explain more than this share of its variance, and more than the label.
    n_restarts : int
        Number of refits for the recurrence of components; 0 for none.
    n_examples : int
        Number of rows listed at each end of a component.
    test : {"sign_flip", "wilcoxon"}
        Test of paired differences between conditions; p-values are corrected by Holm's method.
    random_state : int
        Seed of folds, rotations, classifiers and samples.
    keep_metadata : bool
        Use columns that look like metadata: counts of cells, positions, numbers of objects, images and rows, and
        columns with one value per batch or label. Default: leave them out; a note names them.
    label_key, batch_key, use_rep : optional
        Other names for ``label``, ``batch`` and ``key``, as scanpy calls them.
    progress : callable, optional
        Called with the name of the stage, the number of steps done and the total.

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
    label, batch = one_name(label, label_key, "label", "label_key"), one_name(batch, batch_key, "batch", "batch_key")
    key = one_name(key, use_rep, "key", "use_rep")
    given = dict(transformers or {})
    names = named(conditions, given)
    chosen, shares = require_classifiers(classifiers), _checked_shares(top)
    if n_components is not None and n_components != "all":
        check_counts(n_components=(n_components, 1))
    check_choice("split", split, SPLITS)
    check_choice("test", test, TESTS)
    check_counts(folds=(folds, 2), n_seeds=(n_seeds, 1), n_restarts=(n_restarts, 0), n_examples=(n_examples, 0))
    check_seed(random_state)
    if isinstance(batch_limit, bool) or not isinstance(batch_limit, float | int) or not 0 <= batch_limit <= 1:
        raise InputError(f"batch_limit is {batch_limit!r} and must be a share from 0 to 1")
    if fit_on is None:
        raise InputError("fit_on is None; it takes train, all, or rows to fit on")
    tell = progress or no_progress
    at_once = {"control": control, "folds": folds if split == "folds" else None, "keep_metadata": bool(keep_metadata)}
    inputs = open_inputs(embedding, label, batch, guides, key, **at_once)
    controls = control_values(inputs.label, control)
    tasks = make_tasks(inputs, controls, each)
    inside = isinstance(fit_on, str) and fit_on in ("train", "all")
    asked = Request(
        each=bool(each),
        names=names,
        transformers=given,
        fit_on=fit_on if inside else "other rows",
        elsewhere=None if inside else open_rows(fit_on, inputs),
        n_components=n_components,
        split=split,
        folds=folds,
        n_seeds=n_seeds,
        classifiers=chosen,
        top=shares,
        batch_limit=float(batch_limit),
        n_restarts=n_restarts,
        n_examples=n_examples,
        test=test,
        random_state=int(random_state),
    )
    plan = Plan.make(inputs, tasks, asked)
    evaluation = evaluate(inputs, plan, asked, tell)
    tests, summaries = paired_tests(evaluation, plan, asked), conditions_of(evaluation, asked)
    model: ICA | None = None
    cards: Cards | None = None
    if "pca_ica" in names:
        tell("components", 0, 1)
        with evaluation.timed("components"):
            model, cards = final_components(inputs, asked)
        tell("components", 1, 1)
    components: tuple[Any, ...] = () if cards is None else cards.items
    echoed = {name: value for name, value in vars(asked).items() if name not in ("names", "elsewhere")}
    return Deconfounding(
        conditions=summaries,
        tests=tests,
        components=components,
        filtered=filtered(evaluation, plan, asked),
        scores=tuple(score for score in evaluation.scores if score.condition != FILTERED),
        folds=tuple(plan.facts),
        tasks=tuple(dict.fromkeys(task.name for task in plan.tasks)),
        data=_data(inputs, controls),
        verdict=judge(summaries, tests, chosen[0]),
        caveats=_caveats(inputs, asked, plan, evaluation, tests, model, components),
        settings=echoed
        | {
            "control": list(controls),
            "guides": None if inputs.guides is None else inputs.guides.title,
            "conditions": names,
            "keep_metadata": bool(keep_metadata),
            "transformers": {name: str(transformer) for name, transformer in given.items()},
        },
        model=model,
        cards=cards,
        place=inputs.place,
        seconds=evaluation.seconds,
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
        features=inputs.used_features,
    )


def _checked_shares(top: Any) -> tuple[float, ...]:
    shares = tuple([top] if isinstance(top, float) else top or ())
    if any(isinstance(share, bool) or not isinstance(share, float | int) or not 0 < share < 1 for share in shares):
        raise InputError(f"top is {top!r} and must hold shares between 0 and 1, such as 0.25")
    return tuple(float(share) for share in shares)


def _caveats(
    inputs: Inputs,
    asked: Request,
    plan: Plan,
    evaluation: Evaluation,
    tests: tuple[PairedTest, ...],
    model: ICA | None,
    components: tuple[Component, ...],
) -> tuple[str, ...]:
    """Limits of these numbers, as sentences."""
    label, batch, width = inputs.label, inputs.batch, inputs.values.shape[1]
    lost = ", ".join(plan.left_out[:5]) + (" and more" if len(plan.left_out) > 5 else "")
    one_label = len(np.unique(np.stack([label.codes, batch.codes]), axis=1).T) == batch.count
    back = [component.recurs for component in components if component.recurs is not None]
    rows = min(fold.train_rows for fold in plan.facts) if asked.fit_on == "train" else len(inputs.values)
    white = [name for name in asked.names if name in WHITE]
    kept = evaluation.dimensions[white[0]] if white else width
    cut = asked.n_components is None and dimensions(rows, width, None) < width
    left_out = columns_left_out(model or quietly(Whitening(), inputs.values), inputs.name) if white else None
    transductive = " and ".join(condition_name(name) for name in asked.names if name in TRANSDUCTIVE)
    mixings, several, linear = evaluation.mixings, len(white) > 1, "logistic" in asked.classifiers
    centred = mixings["centred"].batch_auroc if "centred" in mixings else CHANCE
    blown_up = white and asked.n_components == "all" and rows < 10 * kept
    unequal = len(set(evaluation.dimensions.values())) > 1 and "lightgbm" in asked.classifiers
    pairs, least = (tests[0].pairs, min(1.0, len(tests) * tests[0].least_p)) if tests else (0, 0.0)
    said = [
        (lost, f"{len(plan.left_out)} tasks were left out, as no split has both classes in training and test: {lost}"),
        (plan.skipped, f"{plan.skipped} folds were left out of a task, as a class was missing in training or test"),
        (one_label, f"every {batch.title} has one value of {label.title} only: effects of the two are confounded"),
        (2 * sum(back) < len(back), f"only {sum(back)} of {len(back)} components are reproducible in refits"),
        (cut and kept < width, f"whitening kept {kept} of {width} dimensions, a tenth of its rows: see n_components"),
        (blown_up, f"whitening kept {kept} dimensions of {rows} rows: noise is amplified to unit variance"),
        (unequal, "Hoyer sparsity depends on the number of dimensions: compare it only between equal numbers"),
        (left_out, left_out or ""),
        (transductive, f"{transductive} used the batch of held-out rows, and corrected them with training rows"),
        (centred < CHANCE, "batch AUROC below 0.5 is an artefact of centring: halves of a batch have opposite means"),
        (asked.fit_on == "all", "transforms were fitted without labels on all rows, including held-out batches"),
        (several and linear, "linear classifiers are invariant to rotations: PCA, PCA+ICA and PCA+Rand agree"),
        (several and mixings, "PCA, PCA+ICA and PCA+Rand are rotations: their measures of batch mixing are equal"),
        (not mixings, "batch mixing was not measured: it needs two batches of at least 10 rows"),
        (evaluation.nothing_left, f"in {evaluation.nothing_left} folds all components were batch-driven: one was kept"),
        (least > LEVEL, f"{pairs} pairs cannot give a corrected p below {least:.2g}: use more folds"),
        (asked.n_seeds > 1, "pairs of other seeds share rows: p-values and standard errors are somewhat too small"),
        (asked.each or inputs.guides, "tasks share their control rows, so their scores are not independent"),
    ]
    return (*inputs.notes, *(sentence for applies, sentence in said if applies))
