"""What was found, in sentences made by rule from the numbers.

Outcomes of the units as tables beside the published one, figures, findings and a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import binomtest, spearmanr

from .disentanglement_charts import (
    COMPARABLE,
    CONTROLS,
    OURS,
    Chosen,
    Mean,
    Reading,
    Test,
    charts,
    compared,
    quantile,
    specialists_with_ica,
    tests,
    title,
)
from .disentanglement_settings import AGGREGATED, DATA, MEASURES, SOURCE, TABLE, Preset
from .experiment import Outcome, Row, Summary, Table

WAYS_IN_WORDS = (
    "ICA in the tables: published, neither centred nor whitened; rescaled, the same on centred latents of a fixed root "
    "mean square; whitened, at full rank; pruned, whitened in the directions that the decoder responds to. Rotated: "
    "turned at random. PCA: leading principal components of the pixels. Untrained: the encoder before training."
)
_FEW = 4  # points from which a rank correlation is told


def verdict(reading: Reading) -> tuple[str, bool | None]:
    """Whether AE + ICA is ahead of the AE, the other models and every control, in every scene."""
    said: list[str] = []
    of_all: list[str] = []
    of_autoencoder: list[str] = []
    for scene in reading.scenes:
        name = DATA.get(scene, scene)
        found = tests(reading, scene)
        ahead = [test for test in found if test.answer == "ahead"]
        others = [test for test in found if test.answer != "ahead"]
        of_autoencoder += [name] if any(test.name == "AE" for test in ahead) else []
        of_all += [name] if found and not others else []
        ours = reading.held_out(scene, *OURS)
        words = f"In {name} it has InfoM {_mean(ours, 'InfoM')} at InfoE {_mean(ours, 'InfoE')}"
        if ahead:
            words += f", ahead of {_listed([_told(test) for test in ahead])}"
        if others:
            words += f"; {_listed([f'{_answer(test)} {_told(test)}' for test in others])}"
        said.append(words)
    everywhere = len(of_all) == len(reading.scenes)
    if everywhere:
        head = "AE + ICA is ahead of the AE, of the other models and of every control"
    elif of_autoencoder:
        where = f"only in {_listed(of_all)}" if of_all else "nowhere"
        head = f"AE + ICA is ahead of the AE in {_listed(of_autoencoder)}, and of everything it is set beside {where}"
    else:
        head = "AE + ICA is not ahead of the AE"
    return ". ".join([head, *said]) + ".", True if everywhere else None if of_autoencoder else False


def findings(reading: Reading) -> tuple[str, ...]:
    """A sentence or two on each question."""
    found: list[str] = []
    for scene in reading.scenes:
        found += [*_whitening(reading, scene), *_rivals(reading, scene), *_selection(reading, scene)]
    return (*found, *_constants_finding(reading), *_factors(reading), *_planes(reading), WAYS_IN_WORDS)


def _whitening(reading: Reading, scene: str) -> list[str]:
    """Unwhitened, whitened, or pruned and whitened."""
    ways = ("published", "scaled", "whitened", "pruned")
    means = {way: reading.held_out(scene, "ae", way) for way in ways}
    if not all(chosen.scores for chosen in means.values()):
        return []
    modular = {way: chosen.mean("InfoM").value or 0.0 for way, chosen in means.items()}
    best, second = sorted(modular, key=lambda way: -modular[way])[:2]
    margin = compared(second, means[best], means[second])
    words = {
        "published": "unwhitened as published",
        "scaled": "unwhitened and rescaled",
        "whitened": "whitened at full rank",
        "pruned": "pruned and whitened",
    }
    told = _listed([f"{words[way]} {_mean(means[way], 'InfoM')}" for way in ways])
    won = f"{words[best]} wins" if margin.answer != "not shown" else f"{words[best]} and {words[second]} are level"
    points = [point for each in reading.last_points(scene).values() for point in each]
    gaps = [_gap(point) for point in points]
    kept = [point["geometry"]["directions"] for point in points]
    latents = len(points[0]["geometry"]["activity"])
    difference = (means["pruned"].mean("InfoE").value or 0.0) - (means["scaled"].mean("InfoE").value or 0.0)
    return [
        f"{DATA.get(scene, scene)}, inactive latents: InfoM {told}; {won}. The decoder responds to "
        f"{_range(kept)} of {latents} directions, the weakest of these {np.median(gaps):.0f} times as much "
        f"as the strongest of the others (median): whitening at full rank lifts those others to the variance of the "
        f"rest, and pruning removes them first. Pruning changes InfoE by {_signed(difference)} and InfoC by "
        f"{_signed((means['pruned'].mean('InfoC').value or 0.0) - (means['scaled'].mean('InfoC').value or 0.0))}."
    ]


def _rivals(reading: Reading, scene: str) -> list[str]:
    found = specialists_with_ica(reading, scene)
    if not found:
        return []
    told = _listed([f"{_answer(test)} {_told(test)}" for test in found])
    return [f"{DATA.get(scene, scene)}, the other models with ICA of their own: AE + ICA is {told}."]


def _selection(reading: Reading, scene: str) -> list[str]:
    """What labels are worth."""
    way = OURS[1]
    published, honest = reading.as_published(scene, *OURS), reading.held_out(scene, *OURS)
    blind = reading.least_constant(scene, way)
    if not (published.scores and honest.scores):
        return []
    words = (
        f"{DATA.get(scene, scene)}, selection: AE + ICA has InfoM {_mean(published, 'InfoM')} where setting and step "
        f"are chosen and scored on the same images, {_mean(honest, 'InfoM')} where other replicates choose and new "
        "images are scored"
    )
    if blind.scores and blind.choice is not None:
        words += (
            f", and {_mean(blind, 'InfoM')} where no label is looked at and the best conditioned decoder is taken "
            f"({blind.choice[0]})"
        )
    return [words + "."]


def _constants_finding(reading: Reading) -> list[str]:
    """Whether the measured constant says where ICA works."""
    said, pooled = [], []
    for scene in reading.scenes:
        pairs = _pairs(reading, scene)
        pooled += pairs
        if len(pairs) >= _FEW:
            said.append(f"{_rank(pairs):+.2f} over {len(pairs)} runs in {DATA.get(scene, scene)}".replace("-", "−"))
    if len(reading.scenes) > 1 and len(pooled) >= _FEW:
        said.append(f"{_rank(pooled):+.2f} over all of them".replace("-", "−"))
    if not said:
        return []
    return [
        "Rank correlation of the decoder's bi-Lipschitz constant among active directions with InfoM of AE + ICA "
        f"(rescaled; the theory expects it to be negative): {_listed(said)}."
    ]


def _factors(reading: Reading) -> list[str]:
    """Whether factors that move the pixels little are those that are not recovered."""
    said = []
    for scene in reading.scenes:
        generators = reading.generators(scene)
        points = [point for each in reading.last_points(scene).values() for point in each]
        if not generators or not points:
            continue
        names = list(generators[0]["stretch"])
        stretch = {name: float(np.mean([each["stretch"][name] for each in generators])) for name in names}
        best = {
            name: float(np.mean([point["conditions"]["pruned"]["held_out"]["best"][name] for point in points]))
            for name in names
        }
        rank = _rank([(stretch[name], best[name]) for name in names])
        told = _listed([f"{name} {stretch[name]:.2g} and {best[name]:.2f}" for name in names])
        constants = [each["similarity"] for each in generators if each["similarity"] is not None]
        constant = f"{np.mean(constants):.1f}" if constants else "infinite"
        said.append(
            f"{DATA.get(scene, scene)}, factors: how far a standard deviation of each moves the pixels, and the "
            f"information that the best component has of it: {told}; rank correlation {rank:+.2f}. The generator's "
            f"own constant, up to scale, is {constant}.".replace("correlation -", "correlation −")
        )
    return said


def _planes(reading: Reading) -> list[str]:
    """Whether planes that may turn hold components that tell of the same factors."""
    firm, overlap, ranks, pointed, chance = [], [], [], 0, 0.0
    for scene in reading.scenes:
        for points in reading.last_points(scene).values():
            for point in points:
                found = point["conditions"]["pruned"].get("planes")
                if found is not None:
                    firm += found["curvature"]
                    overlap += found["overlap"]
                    ranks += [] if found["spearman"] is None else [found["spearman"]]
                    pointed += int(np.argmin(found["curvature"]) == np.argmax(found["overlap"]))
                    chance += 1 / len(found["overlap"])
    if len(ranks) < 2:
        return []
    pooled = _rank(list(zip(firm, overlap, strict=True)))
    error = float(np.std(ranks, ddof=1) / math.sqrt(len(ranks)))
    mean = float(np.mean(ranks))
    leans = mean < -quantile(len(ranks)) * error
    firmly = binomtest(pointed, len(ranks), min(chance / len(ranks), 1.0), alternative="greater").pvalue < 0.05
    if leans and not firmly:
        says = "tend to be those of mixed factors, but the softest of them does not say which factors stay mixed"
    else:
        says = f"{'say' if leans else 'do not say'} which factors stay mixed"
    return [
        f"Planes: rank correlation of the contrast's curvature in the plane of two components with how far both tell "
        f"of the same factors is {_signed(mean)} ± {error:.2f} within runs ({len(ranks)} of them), and "
        f"{_signed(pooled)} over all planes. The plane that curves least is the one that is mixed most in {pointed} of "
        f"them (chance gives {chance:.1f}). Near-Gaussian planes {says}."
    ]


def _pairs(reading: Reading, scene: str) -> list[tuple[float, float]]:
    found = []
    for points in reading.last_points(scene).values():
        for point in points:
            constant = point["geometry"]["active"]["similarity"]
            if constant is not None and math.isfinite(constant):
                found.append((float(constant), float(point["conditions"][OURS[1]]["held_out"]["InfoM"])))
    return found


def _gap(point: Outcome) -> float:
    """How many times as much the weakest active direction moves images as the strongest inactive one."""
    activity, kept = point["geometry"]["activity"], int(point["geometry"]["directions"])
    if kept >= len(activity) or not activity[kept]:
        return math.inf
    return float(activity[kept - 1] / activity[kept])


def _range(numbers: list[int]) -> str:
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def _rank(pairs: list[tuple[float, float]]) -> float:
    x, y = zip(*pairs, strict=True)
    if len(set(x)) < 2 or len(set(y)) < 2:
        return 0.0
    return float(spearmanr(x, y).statistic)


def _told(test: Test) -> str:
    explicit = f", InfoE {_signed(test.explicitness)}" if abs(test.explicitness) > COMPARABLE else ""
    return f"{test.name} ({_value(test.difference, test.error, signed=True)}{explicit})"


def _answer(test: Test) -> str:
    return {
        "behind": "behind",
        "not shown": "not shown to differ from",
        "ahead, but less explicit": "ahead at less InfoE of",
    }.get(test.answer, test.answer + " of")


def _mean(chosen: Chosen, measure: str) -> str:
    mean = chosen.mean(measure)
    return _value(mean.value, mean.error)


def _value(value: float | None, error: float | None, signed: bool = False) -> str:
    if value is None:
        return "unknown"
    told = _signed(value) if signed else f"{value:.2f}"
    return told if error is None else f"{told} ± {error:.2f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nothing"


HIGHER = "higher is better"


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Everything that is printed and drawn."""
    reading = Reading(preset, outcomes)
    sentence, reached = verdict(reading)
    tables: list[Table | None] = [
        _scores_table(reading, scene, how) for scene in reading.scenes for how in ("published", "held-out")
    ]
    tables += [_aggregated(reading), _sweep_table(reading)]
    return Summary(
        verdict=sentence,
        reached=reached,
        tables=tuple(table for table in tables if table is not None),
        charts=charts(reading),
        findings=findings(reading),
    )


def _scores_table(reading: Reading, scene: str, how: str) -> Table:
    """All models and controls of a scene under one rule of selection."""
    rows = []
    for model in (*reading.models, *CONTROLS):
        for way in reading.ways(model):
            chosen = (reading.as_published if how == "published" else reading.held_out)(scene, model, way)
            published = _published(scene, model, way) if how == "published" else ()
            rows.append(_row(title(model, way), chosen, published))
    said = (
        "setting and step with the best mean InfoM on training images, as published"
        if how == "published"
        else "setting and step that the other replicates choose, on images never trained on"
    )
    return Table(f"{scene}-{how}", f"{DATA.get(scene, scene)}: {said}", MEASURES, tuple(rows), HIGHER, _source(scene))


def _row(name: str, chosen: Chosen, published: tuple[float, ...] = ()) -> Row:
    if not chosen.scores:
        return Row(name, (), (), published)
    means = [chosen.mean(measure) for measure in MEASURES]
    return Row(name, tuple(mean.value for mean in means), tuple(mean.error for mean in means), published)


def _published(scene: str, model: str, way: str) -> tuple[float, ...]:
    """Published scores: those of Shapes3D beside rooms, which are drawn in its manner, and means beside others."""
    known = TABLE.get((model, way))
    if known is None:
        return ()
    if scene in known:
        return known[scene]
    return known["shapes3d"] if scene == "rooms" else AGGREGATED[model, way]


def _source(scene: str) -> str:
    if scene in DATA:
        return f"{SOURCE}, {DATA[scene]}"
    return f"{SOURCE}, {'Shapes3D' if scene == 'rooms' else 'all data sets'}: other images"


def _aggregated(reading: Reading) -> Table | None:
    """Means over the data sets of the paper, where all were run."""
    if not set(DATA) <= set(reading.scenes):
        return None
    rows = []
    for model in reading.models:
        for way in reading.ways(model):
            found = [reading.as_published(scene, model, way) for scene in DATA]
            means = [[chosen.mean(measure).value for chosen in found] for measure in MEASURES]
            values = tuple(
                None if any(value is None for value in each) else float(np.mean([value or 0.0 for value in each]))
                for each in means
            )
            rows.append(Row(title(model, way), values, (), AGGREGATED.get((model, way), ())))
    return Table("aggregated", "Mean over the data sets", MEASURES, tuple(rows), HIGHER, SOURCE)


def _sweep_table(reading: Reading) -> Table | None:
    """Weight decay of the autoencoder: reconstruction, conditioning, and what ICA makes of it; held-out images."""
    rows = []
    for scene in reading.scenes:
        for setting, points in reading.last_points(scene).items():
            columns = (
                [point["lost"] for point in points],
                [point["geometry"]["directions"] for point in points],
                [point["geometry"]["active"]["similarity"] for point in points],
                [point["geometry"]["active"]["median_condition"] for point in points],
                *(
                    [point["conditions"][way]["held_out"]["InfoM"] for point in points]
                    for way in ("raw", "published", "scaled", "pruned")
                ),
                [point["conditions"]["raw"]["held_out"]["InfoE"] for point in points],
            )
            means = [Mean.of(column) for column in columns]
            rows.append(
                Row(
                    f"{DATA.get(scene, scene)}, {setting}",
                    tuple(mean.value for mean in means),
                    tuple(mean.error for mean in means),
                )
            )
    names = ("lost", "directions", "constant", "condition", "AE", "as published", "rescaled", "pruned", "InfoE")
    title_ = (
        "The autoencoder by weight decay: share of the variance that reconstructions lose, directions the decoder "
        "responds to, its bi-Lipschitz constant (up to scale) and median condition number among these, and InfoM"
    )
    return Table("sweep", title_, names, tuple(rows), "held-out images, after the last step") if rows else None
