"""``isorep.deconfound``: does ICA of an embedding separate biology from batch?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..ica import ICA, Cards, Whitening
from ..ica.whitening import columns_left_out, quietly
from ..results import counted
from ..rows import Progress, no_progress
from ..settings import check_choice, check_counts, check_seed, one_name
from .classifiers import require_classifiers
from .components import Component, final_components
from .controls import control_values
from .designs import design_notes, other_columns
from .dimensions import ALL, AUTO, EDGE, TENTH, Choice, gathered
from .evaluation import FILTERED, Evaluation, Makers, Plan, conditions_of, evaluate, filtered, paired_tests
from .inputs import (
    SPLITS,
    UNITS,
    Column,
    Inputs,
    Request,
    Task,
    make_tasks,
    resolved_split,
    shared_by_controls,
)
from .maps import Needs, make_maps
from .reading import open_column, open_inputs, open_rows
from .result import CHANCE, Data, Deconfounding, judge
from .transforms import WHITE, condition_name, named


def deconfound(
    embedding: Any,
    label: Any = None,
    batch: Any = None,
    *,
    key: str | None = None,
    control: Any = None,
    each: bool = False,
    guides: Any = None,
    also_hold_out: Any = None,
    conditions: Sequence[str] | str | None = None,
    transformers: Mapping[str, Any] | None = None,
    fit_on: Any = "train",
    n_components: int | str | None = None,
    split: str = "auto",
    folds: int | None = None,
    unit: str = "batch",
    n_seeds: int = 1,
    n_rotations: int = 1,
    classifiers: Sequence[str] = ("lightgbm", "logistic"),
    top: Sequence[float] = (),
    batch_limit: float = 0.1,
    n_restarts: int = 5,
    n_examples: int = 5,
    mixing: bool = True,
    random_state: int = 0,
    keep_metadata: bool = False,
    label_key: Any = None,
    batch_key: Any = None,
    use_rep: str | None = None,
    progress: Progress | None = None,
) -> Deconfounding:
    r"""Test whether ICA of an embedding separates biology from batch, so that classifiers transfer to held-out batches.

    Whitening and ICA are fitted without labels; only their number of axes is chosen with those of training batches. A
    classifier learns on some batches to distinguish perturbed rows from controls. Its AUROC on the other batches is
    compared with that of the embedding as it is, of a random rotation of the whitened space, and of batch corrections
    of the field. If factors of biology and of batch are independent and the model that made the embedding is near an
    isometry, ICA recovers them one by one (Nelson et al. 2026, Theorem 3), and trees, which split on one axis at a
    time, can ignore the batch axes.

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
        Independent experiments on the same label, such as guides of a gene: each is its own task.
    also_hold_out : str or (n,) labels, optional
        A second column to hold out, such as clones, donors or compounds: test rows then have a batch and a value of
        it that no training row has. Controls that all have one value are divided by batch alone.
    conditions : sequence of str or "all", optional
        Conditions to compare, from ``base`` (as it is), ``pca`` (whitened), ``pca_ica``, ``pca_rand`` (whitened and
        randomly rotated), ``ica_base`` (ICA without whitening), ``control_z`` (z-scores to the controls of each batch),
        ``sphere`` (sphered on training controls), ``tvn`` (sphered on controls, by batch), ``centred`` (batch means
        removed), ``regress_out`` (all batch columns regressed out), ``combat`` and ``harmony``. Default: ``base``,
        ``pca_ica``, ``pca_rand``, and ``control_z`` if every batch has at least three controls.
    transformers : dict of str to scikit-learn transformer, optional
        Further conditions; they are cloned and fitted without labels. Where ``fit`` or ``transform`` takes arguments
        called ``batch`` or ``controls`` (or requests them as metadata), it gets the batch of every row and which rows
        are controls.
    fit_on : {"train", "all"} or rows
        Rows that transforms are fitted on: the training batches of each fold (default), all rows, or other rows (an
        array, Representation or path), such as one patch per image.
    n_components : int, "all" or "tenth", optional
        Number of axes that whitening keeps. Default: chosen inside the training batches of each fold, by a linear
        discriminant on batches left out there, and at most a tenth of the fitted rows (``tenth``: exactly that).
    split : {"auto", "leave_one_out", "folds", "train_on_one"}
        Hold out one batch at a time, one fold of batches, or all batches but one. Default: one batch at a time up to 20
        batches, ten folds above. Folds never split a batch, and perturbed rows are spread evenly.
    folds : int, optional
        Number of folds, at most the number of batches.
    unit : {"batch", "fold"}
        What is scored and paired: each held-out batch, averaged over tasks, guides and seeds (default), or all rows of
        a fold together, once for each task, guide and seed, as published.
    n_seeds : int
        Number of repetitions, with other folds, rotations and classifier seeds.
    n_rotations : int
        Number of random rotations of ``pca_rand``; their spread is part of its error.
    classifiers : sequence of str
        ``lightgbm`` with the published parameters, ``logistic``, or both; the first decides tests and verdict.
    top : sequence of float
        Shares of the most important features for the concentration; default: none.
    batch_limit : float
        A component is batch-driven if batches explain more than this share of its values or of its spread, and more
        than the label.
    n_restarts : int
        Number of refits for the recurrence of components; 0 for none.
    n_examples : int
        Number of rows listed at each end of a component.
    mixing : bool
        Measure labels across batches and how batches mix, which takes longer than small classifiers.
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
    chosen, shares = require_classifiers(classifiers), _checked_shares(top)
    wanted = AUTO if n_components is None else n_components
    if wanted not in (AUTO, ALL, TENTH):
        check_counts(n_components=(n_components, 1))
    check_choice("split", split, SPLITS)
    check_choice("unit", unit, UNITS)
    if folds is not None:
        check_counts(folds=(folds, 2))
    check_counts(n_seeds=(n_seeds, 1), n_rotations=(n_rotations, 1))
    check_counts(n_restarts=(n_restarts, 0), n_examples=(n_examples, 0))
    check_seed(random_state)
    if isinstance(batch_limit, bool) or not isinstance(batch_limit, float | int) or not 0 <= batch_limit <= 1:
        raise InputError(f"batch_limit is {batch_limit!r} and must be a share from 0 to 1")
    if fit_on is None:
        raise InputError("fit_on is None; it takes train, all, or rows to fit on")
    tell = progress or no_progress
    at_once = {"control": control, "folds": folds, "keep_metadata": bool(keep_metadata)}
    inputs = open_inputs(embedding, label, batch, guides, key, **at_once)
    controls = control_values(inputs.label, control)
    tasks = make_tasks(inputs, controls, each)
    is_control = np.isin(np.array(inputs.label.names), controls)[inputs.label.codes]
    names, left_out = named(conditions, given, inputs.batch.codes, is_control)
    also = None if also_hold_out is None else _second_column(embedding, also_hold_out, inputs, tasks)
    used = [column.title for column in (inputs.label, *inputs.batches, inputs.guides, also) if column is not None]
    inputs = replace(inputs, also=also, others=other_columns(inputs.obs, used))
    kind, n_folds = resolved_split(inputs.batch, tasks, split, folds)
    inside = isinstance(fit_on, str) and fit_on in ("train", "all")
    asked = Request(
        each=bool(each),
        names=names,
        transformers=given,
        fit_on=fit_on if inside else "other rows",
        elsewhere=None if inside else open_rows(fit_on, inputs),
        n_components=wanted,
        split=kind,
        folds=n_folds,
        unit=unit,
        n_seeds=n_seeds,
        n_rotations=n_rotations,
        classifiers=chosen,
        top=shares,
        batch_limit=float(batch_limit),
        n_restarts=n_restarts,
        n_examples=n_examples,
        mixing=mixing,
        random_state=int(random_state),
    )
    plan = Plan.make(inputs, tasks, asked)
    evaluation = evaluate(inputs, plan, asked, tell)
    (tests, second), summaries = paired_tests(evaluation, plan, asked), conditions_of(evaluation, asked)
    scores = tuple(score for score in evaluation.scores if score.condition != FILTERED)
    model: ICA | None = None
    cards: Cards | None = None
    final: Choice | None = None
    if evaluation.choices:
        tell("components", 0, 1)
        with evaluation.timed("components"):
            final = Makers(inputs, tasks, asked).choose(np.ones(len(inputs.values), dtype=bool))
            if final is not None and "pca_ica" in names:
                model, cards = final_components(inputs, asked, final.dimensions)
        tell("components", 1, 1)
    components: tuple[Any, ...] = () if cards is None else cards.items
    echoed = {name: value for name, value in vars(asked).items() if name not in ("names", "elsewhere")}
    word = "fold" if any(score.batch is None for score in scores) else "batch"
    return Deconfounding(
        conditions=summaries,
        tests=tests,
        components=components,
        filtered=filtered(evaluation, plan, asked),
        scores=scores,
        folds=tuple(plan.facts),
        tasks=tuple(dict.fromkeys(task.name for task in plan.tasks)),
        data=_data(inputs, controls),
        verdict=judge(summaries, tests, second, chosen[0], word),
        caveats=(*_caveats(inputs, asked, plan, evaluation, model, components), *left_out),
        settings=echoed
        | {
            "control": list(controls),
            "guides": None if inputs.guides is None else inputs.guides.title,
            "also_hold_out": None if also is None else also.title,
            "conditions": names,
            "keep_metadata": bool(keep_metadata),
            "transformers": {name: str(transformer) for name, transformer in given.items()},
        },
        model=model,
        cards=cards,
        place=inputs.place,
        seconds=evaluation.seconds,
        second_opinions=second,
        dimensions=None if final is None else gathered(evaluation.choices, final),
        maps=make_maps(inputs, model, components, int(random_state)),
        needs=Needs.of(components, len(inputs.values if asked.elsewhere is None else asked.elsewhere))
        if components
        else None,
    )


def _second_column(embedding: Any, given: Any, inputs: Inputs, tasks: list[Task]) -> Column:
    """The column that is held out together with the batches."""
    column = open_column(embedding, given, "also_hold_out", inputs)
    missing = column.codes < 0
    if missing.any():
        controls = np.zeros(len(missing), dtype=bool)
        controls[tasks[0].controls] = True
        if not (missing == controls).all():
            first = int(np.argmax(missing))
            raise InputError(
                f"{column.title} is missing for {int(missing.sum())} rows, the first at row {first}: it may be missing "
                "for all controls and for no other row"
            )
    if np.array_equal(column.codes, inputs.batch.codes):
        raise InputError(f"{column.title} divides rows as {inputs.batch.title} does, which is held out already")
    return column


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
    model: ICA | None,
    components: tuple[Component, ...],
) -> tuple[str, ...]:
    """Limits of these numbers, as sentences."""
    label, batch = inputs.label, inputs.batch
    lost = ", ".join(plan.left_out[:5]) + (" and more" if len(plan.left_out) > 5 else "")
    one_label = len(np.unique(np.stack([label.codes, batch.codes]), axis=1).T) == batch.count
    back = [component.recurs for component in components if component.recurs is not None]
    rows = min(fold.train_rows for fold in plan.facts) if asked.fit_on == "train" else len(inputs.values)
    white = [name for name in asked.names if name in WHITE]
    kept = max((choice.dimensions for choice in evaluation.choices), default=0)
    left_out = columns_left_out(model or quietly(Whitening(), inputs.values), inputs.name) if white else None
    mixings, several, linear = evaluation.mixings, len(white) > 1, "logistic" in asked.classifiers
    below = [condition_name(name) for name in ("centred", "regress_out", "combat") if name in mixings]
    below = [name for name in below if any(mixings[key].batch_auroc < CHANCE for key in mixings)]
    blown_up = white and asked.n_components != AUTO and asked.elsewhere is None and rows < 10 * kept
    floor = evaluation.choices and evaluation.choices[0].rule == EDGE
    unequal = asked.top and len(set(evaluation.dimensions.values())) > 1 and "lightgbm" in asked.classifiers
    together = inputs.also is not None and shared_by_controls(inputs.also, plan.tasks)
    rotated = " and ".join([", ".join(map(condition_name, white[:-1])), *map(condition_name, white[-1:])])
    said = [
        (lost, f"{len(plan.left_out)} tasks were left out, as no split has both classes in training and test: {lost}"),
        (
            plan.skipped,
            f"{counted(plan.skipped, 'fold was', 'folds were')} left out of a task, as a class was missing in training "
            "or test",
        ),
        (one_label, f"every {batch.title} has one value of {label.title} only: effects of the two are confounded"),
        *((True, note) for note in design_notes(inputs, plan.tasks)),
        (
            together,
            f"controls share one value of {getattr(inputs.also, 'title', '')}: they were held out by batch alone",
        ),
        (
            2 * sum(back) < len(back),
            f"{f'only {sum(back)}' if any(back) else 'none'} of {len(back)} components "
            f"{'is' if sum(back) < 2 else 'are'} reproducible in refits",
        ),
        (floor, "too few training batches to choose the number of dimensions on: axes above the noise were counted"),
        (blown_up, f"whitening kept {kept} dimensions of {rows} rows: noise is amplified to unit variance"),
        (unequal, "Hoyer sparsity depends on the number of dimensions: compare it only between equal numbers"),
        (left_out, left_out or ""),
        (below, "batch AUROC below 0.5 is an artefact of centring: halves of a batch have opposite means"),
        (asked.fit_on == "all", "transforms were fitted without labels on all rows, including held-out batches"),
        (several and linear, f"linear classifiers are invariant to rotations: {rotated} agree"),
        (
            several and mixings,
            f"{rotated} are rotations: of the measures of batches and labels only the forest differs",
        ),
        (asked.mixing and not mixings, "batch mixing was not measured: it needs two batches of at least 10 rows"),
        (evaluation.nothing_left, f"in {evaluation.nothing_left} folds all components were batch-driven: one was kept"),
        (
            asked.unit == "fold" and asked.n_seeds > 1,
            "pairs of other seeds share rows: p-values are somewhat too small",
        ),
        (asked.each or inputs.guides, "tasks share their control rows, so their scores are not independent"),
    ]
    return (*inputs.notes, *(sentence for applies, sentence in said if applies))
