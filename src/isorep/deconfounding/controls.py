"""Controls of a screen: which values of a label are controls, by their names, or which could be.

A name is that of a control if nothing is left of it besides a word for one, its dose and its place: ``DMSO``,
``0.1% DMSO``, ``DMSO@NA``. ``DMSO-resistant clone`` and ``controlled`` are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from .inputs import Column

_MOST_SHOWN = 8
_KINDS = {
    "control": r"controls?|ctrls?|ctl|con|negcon|neg con|neg ctrls?|neg controls?|negative controls?|negative ctrls?|"
    r"negative|neg|empty controls?|untrt|wild ?type|wt|parental",
    "vehicle": r"dmso|vehicle|veh|solvent|water|h2o|pbs|saline|media(?: only)?",
    "untreated": r"untreated|un treated|unperturbed|non treated|not treated|no treatment|no drug|no compound|mock|"
    r"mock treated|mock infected|empty|empty well|blank",
    "non-targeting": r"non ?target(?:ing)?|not targeting|nt|ntc|nts|ntgt|safe ?target(?:ing)?|safe harbou?r|"
    r"(?:si|sh|sg)?(?:rna)? ?(?:neg(?:ative)?|scr|scramble|scrambled|ntc?|non ?targeting|ctrl|control)(?: ?rna)?|aavs|"
    r"scrambled? (?:si|sh|sg)?rna|empty vector|ev",
}
_CONTROL_AFTER = r"(?: (?:controls?|ctrls?|ctl|negcon|only|alone|treated|wells?))*"
_PATTERNS = {kind: re.compile(rf"(?:{words}){_CONTROL_AFTER}") for kind, words in _KINDS.items()}
_DOSE = re.compile(
    r"(?<![a-z0-9])\d+(?:[.,]\d+)?(?:e-?\d+)? ?(?:%|percent|pct|[munpf]?m|µm|[mun]?g(?: ?/ ?[mun]?l)?|[mun]?l|x|h|hr|"
    r"hrs|hours?|v/v)?(?: ?\(?v/v\)?)?(?![a-z0-9])"
)
_UNKNOWN = re.compile(r"(?<![a-z0-9])(?:na|nan|n/a|none|null|-666)(?![a-z0-9])")


def control_kind(name: str) -> str | None:
    """The kind of control that a name stands for; None where it stands for none.

    Examples
    --------
    >>> control_kind("DMSO 0.1 %"), control_kind("siNeg"), control_kind("DMSO-resistant clone")
    ('vehicle', 'non-targeting', None)
    """
    text = name.strip()
    bare = _without_dose(text.lower())
    spaced = _without_dose(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())
    for words in (bare, spaced):
        for kind, pattern in _PATTERNS.items():
            if pattern.fullmatch(words):
                return kind
    return None


def _without_dose(text: str) -> str:
    """Words alone: without doses, entries for nothing, numbers at the end, and signs."""
    text = _UNKNOWN.sub(" ", _DOSE.sub(" ", re.sub(r"[_@|;:]", " ", text)))
    text = re.sub(r"[-/+.,()\[\]#%]", " ", text)
    return " ".join(text.split()).rstrip("0123456789 ")


def control_values(label: Column, control: Any, batch: Column | None = None) -> tuple[str, ...]:
    """The values of the label that are controls: named by the user, or those that look like controls of one kind."""
    if label.count < 2:
        raise InputError(f"{label.title} has one value only, {label.names[0]!r}: there is nothing to tell apart")
    shown = ", ".join(map(repr, label.names[:6])) + (" and more" if label.count > 6 else "")
    if control is None:
        return _found(label, batch)
    several = isinstance(control, Sequence | np.ndarray) and not isinstance(control, str)
    wanted = tuple(as_label(each) for each in (control if several else [control]))
    unknown = [each for each in wanted if each not in label.names]
    if unknown or not wanted:
        raise InputError(f"control {', '.join(map(repr, unknown)) or 'is empty'}: {label.title} holds {shown}")
    if len(set(wanted)) == label.count:
        raise InputError(f"every value of {label.title} is named as a control: there is nothing to tell apart")
    return wanted


def _found(label: Column, batch: Column | None) -> tuple[str, ...]:
    kinds = {name: kind for name in label.names if (kind := control_kind(name)) is not None}
    if label.count == 2 and not kinds:
        kinds = {name: "control" for name in label.names if name.lower() in ("false", "0")}
    if len(set(kinds.values())) == 1 and len(kinds) < label.count:
        return tuple(kinds)
    ask = f"which value of {label.title} is the control? Name it with --control (control= in Python)"
    if kinds:
        named = ", ".join(f"{name!r} ({_count(label, name)} rows)" for name in list(kinds)[:_MOST_SHOWN])
        raise InputError(f"{ask}, one or several; of {label.count} values these look like controls: {named}")
    raise InputError(f"{ask}; the most frequent of its {label.count} values are {_candidates(label, batch)}")


def _count(label: Column, name: str) -> int:
    return int(np.count_nonzero(label.codes == label.names.index(name)))


def _candidates(label: Column, batch: Column | None) -> str:
    """The most frequent values with their numbers of rows, and which of them occur in every batch."""
    known = label.codes >= 0
    counts = np.bincount(label.codes[known], minlength=label.count)
    order = np.argsort(-counts, kind="stable")[:_MOST_SHOWN]
    said = ", ".join(f"{label.names[code]!r} ({counts[code]} rows)" for code in order)
    if batch is None:
        return said
    both = known & (batch.codes >= 0)
    pairs = np.unique(np.stack([label.codes[both], batch.codes[both]]), axis=1)[0]
    everywhere = np.flatnonzero(np.bincount(pairs, minlength=label.count) == batch.count)
    named = ", ".join(repr(label.names[code]) for code in everywhere[:_MOST_SHOWN])
    more = f" and {len(everywhere) - _MOST_SHOWN} more" if len(everywhere) > _MOST_SHOWN else ""
    return f"{said}; in every {batch.title}: {named or 'none'}{more}"


def as_label(value: Any) -> str:
    """A label as text: 1.0 and 1 are the same, also where a file stores them as text."""
    text = str(value)
    return text[:-2] if text.endswith(".0") and text[:-2].lstrip("-").isdigit() else text
