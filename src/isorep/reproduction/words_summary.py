"""Held-out R² of word models by rung, dimension and frequency: tables, Figure 1, and the claims of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..resampling import Value
from .experiment import Chart, Claim, Outcome, Summary, Table
from .outcomes import RUNGS, Setting, claim, cloud, conjunction, lines, mean_of, r2_gain, summary, table, ticks
from .words import ESTIMATORS, Preset

DIFFERENT = 0.5
"""Held-out R² of no map up to which two trainings look different."""
R2 = "1: all variance is explained; below 0: worse than the mean; below −1 counts as −1"
SIDES = {
    "f": ("Contexts f", "Contexts f, held-out blocks of text", "cca"),
    "g": ("Words g", "Words g, centred, five folds", "cca_g"),
}
RUNG_NAMES = {"identity": "no map", "permutation": "signed permutation", "rigid": "rigid, scaled", "linear": "linear"}
THEORY = {"f, head map": "head", "f, regression": "f.linear", "g, by f": "transposed", "g, regression": "g.linear"}
AXES = ("first dimension", "second dimension")


def summarise(preset: Preset, outcomes: Mapping[str, Outcome]) -> Summary:
    """Claims, tables and figures; the first setting is the headline."""
    every = [Setting(outcome) for outcome in outcomes.values()]
    if len({each.corpus["digest"] for each in every}) > 1:
        raise InputError("the text has changed since a part of this run was done: name another folder with --out")
    if not every:
        return summary((), (), ())
    sweep = [each for each in every if each.estimator == preset.estimators[0]]
    return summary(claims(every, sweep, preset), tables(every), charts(every[0], sweep))


def claims(every: list[Setting], sweep: list[Setting], preset: Preset) -> list[Claim]:
    """Whether two trainings differ before and nearly coincide after a linear map, and in which settings."""
    head, where = every[0], f"in {every[0].dimension} dimensions, held-out R² of"
    others = [each for each in every if each.estimator != head.estimator]

    def coincide(measure: str, value: Value) -> Claim:
        return claim("", measure, value, least=preset.high)

    made = [
        conjunction(
            "contexts of two trainings differ before a linear map and nearly coincide after it",
            (
                claim("", f"{where} no map", head.mean("f.identity"), most=DIFFERENT),
                coincide("of a linear map", head.mean("f.linear")),
            ),
            "a picture without numbers, Figure 1",
        ),
        claim(
            "a linear map of contexts explains more than no map and than shuffled contexts",
            f"{where} the linear map above the better of the two",
            head.mean(r2_gain),
            above=0.0,
        ),
        conjunction("words nearly coincide, too", [coincide(f"{where} a linear map", head.mean("g.linear"))]),
    ]
    groups = {
        "contexts nearly coincide in other dimensions": [each for each in sweep if each is not head],
        "contexts nearly coincide with the other estimator": others,
    }
    made += [
        conjunction(text, [coincide(f"{_name(each)}: R²", each.mean("f.linear")) for each in group])
        for text, group in groups.items()
        if group
    ]
    diverse = [float(model["diverse"]) for each in every for model in each.models]
    text = "differences of the words' vectors span the space, as the theorem assumes"
    measure, share = f"share of {len(diverse)} trained heads that are diverse", Value(mean_of(diverse).mean)
    return [*made, claim(text, measure, share, least=1.0, published="section 3, the condition on diversity")]


def tables(every: list[Setting]) -> tuple[Table, ...]:
    """Rungs of contexts and words, words by frequency, theory compared with regression, and the text."""
    named = {_name(each): each for each in every}

    def rows(keys: Sequence[str]) -> dict[str, list[Value]]:
        return {name: [each.mean(key) for key in keys] for name, each in named.items()}

    bands, corpus = _bands(every[0]), every[0].corpus
    facts = {"words": "words", "different words": "different_words", "covered": "covered", "rarest word": "rarest"}
    return (
        *(
            table(
                f"rungs-{side}",
                f"{title}: held-out R² by rung, mean over pairs ± s.e., and the mean canonical correlation",
                R2,
                rows([*(f"{side}.{rung}" for rung in RUNGS), f"{side}_shuffled", cca]),
                (*RUNGS, "linear, shuffled", "CCA"),
            )
            for side, (_, title, cca) in SIDES.items()
        ),
        table(
            "bands",
            "Words g by frequency: held-out R² of the linear map within a band of ranks",
            R2,
            rows([f"bands.{place}" for place in range(len(bands))]),
            bands,
        ),
        table(
            "theory",
            "Held-out loss in nats; number of diverse heads, and their largest condition number; R² of maps that "
            "theory predicts, and of regressions",
            "the head map uses no contexts, and g by f no pair of words: it is the transpose of a regression of "
            "contexts",
            {
                name: [
                    named[name].over_models("loss"),
                    Value(float(named[name].unigram)),
                    named[name].over_models("diverse", sum),
                    named[name].over_models("condition", max),
                    *values,
                ]
                for name, values in rows(list(THEORY.values())).items()
            },
            ("loss", "unigram", "diverse", "condition", *THEORY),
        ),
        table(
            "text",
            "The text: its words, how many are different, the share that the vocabulary covers, how often its rarest "
            "word is seen",
            "runs on texts of other digests are not comparable",
            {f"{corpus['source']}, digest {corpus['digest']}": [Value(float(corpus[key])) for key in facts.values()]},
            tuple(facts),
        ),
    )


def charts(head: Setting, sweep: list[Setting]) -> list[Chart]:
    """Figure 1 where the headline has two dimensions, the rungs by dimension, and words by frequency."""
    drawn = _figure_1(head.outcome["picture"]) if head.outcome.get("picture") else []
    where = [f"{each.dimension} dimensions" for each in sweep]
    for side, (words, _, _) in SIDES.items():
        wanted = {RUNG_NAMES[rung]: f"{side}.{rung}" for rung in RUNGS} | {"linear, shuffled": f"{side}_shuffled"}
        drawn.append(
            Chart(
                f"dimensions-{side}",
                f"{words} of two trainings by rung and dimension",
                "Held-out R², mean over pairs ± standard error.",
                ("dimensions", "R²"),
                lines=lines({name: [each.mean(key) for each in sweep] for name, key in wanted.items()}, where, start=1),
                ticks=ticks(str(each.dimension) for each in sweep),
            )
        )
    bands = _bands(head)
    by_band = [[each.mean(f"bands.{place}") for place in range(len(bands))] for each in sweep]
    drawn.append(
        Chart(
            "bands",
            "Words g by frequency: the linear map within bands of ranks",
            "Held-out R² within the band, mean over pairs ± standard error; the most frequent words at the left.",
            ("ranks of words by frequency", "R²"),
            lines=lines(dict(zip(where, by_band, strict=True)), bands, start=1),
            ticks=ticks(name.removeprefix("ranks ") for name in bands),
        )
    )
    return drawn


def _figure_1(shown: Mapping[str, Any]) -> list[Chart]:
    dots = shown["contexts"]
    before = ("first", "one training", "before the map (Figure 1, left and middle)", "Both trainings as they are.")
    title, caption = "after the linear map (Figure 1, right)", "The map was fitted to other blocks of text."
    clouds = {"before": before, "after": ("mapped", "one training, mapped", title, caption)}
    drawn = [
        Chart(
            f"contexts-{key}",
            f"Contexts f {title}",
            f"A dot is a held-out context of words. {caption}",
            AXES,
            lines=(cloud(dots[of], name, 1), cloud(dots["second"], "another training", 2)),
            square=True,
        )
        for key, (of, name, title, caption) in clouds.items()
    ]
    panels = {
        "first": ("Words g of one training", "The most frequent words; some are named.", 1),
        "second": ("Words g of another training", "The same words; the same ones are named.", 2),
        "mapped": ("Words g of the first after the linear map", "Each word by a map that was fitted without it.", 1),
    }
    for key, (title, caption, series) in panels.items():
        dots = [cloud(shown[key], title, series, shown["words"])]
        if key == "mapped":
            dots.append(cloud(shown["second"], "the other training", 2, shown["words"]))
        notes = tuple((*dots[0].points[row], str(shown["words"][row])) for row in shown["labelled"])
        drawn.append(Chart(f"words-{key}", title, caption, AXES, lines=tuple(dots), square=True, notes=notes))
    return drawn


def _name(setting: Setting) -> str:
    return f"{ESTIMATORS[setting.estimator]}, {setting.dimension} dimensions"


def _bands(setting: Setting) -> list[str]:
    return [f"ranks {start + 1} to {stop}" for start, stop in setting.bands]
