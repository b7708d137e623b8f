"""Which array, tensor or columns of a file are the representation, when the user has not said so."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError

IDS_NAMES = ("ids", "id")
INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")
METADATA_PREFIX = "Metadata_"
FEATURE_PREFIX = "feature_"


def default_ids_name(names: Sequence[str]) -> str | None:
    """The array or column that holds row ids by convention."""
    return next((name for name in (*IDS_NAMES, *INDEX_NAMES) if name in names), None)


def choose_array(shapes: dict[str, tuple[int, ...]], key: str | None, noun: str) -> str:
    """The named array, or the only one that can be a representation."""
    if key is not None:
        if key not in shapes:
            raise InputError(f"there is no {noun} {key!r}; there are {_listing(shapes) or 'none'}")
        return key
    if not shapes:
        raise InputError(f"there is no {noun} in it")
    if len(shapes) == 1:
        return next(iter(shapes))
    candidates = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(candidates) == 1:
        return candidates[0]
    raise InputError(f"several {noun}s could be meant ({_listing(shapes)}): name one with key=, or as FILE::NAME")


def choose_columns(
    numeric: Sequence[str], lists: Sequence[str], key: str | None, ids: str | None
) -> tuple[list[str], str | None]:
    """Columns of a table that make up the representation: plain numeric ones, or one list column.

    ``feature_*`` columns come first, then the one list column, then all numeric columns that are neither row
    ids nor ``Metadata_*``. A key is the name of a list column, or a prefix of numeric ones.
    """
    numeric = [name for name in numeric if name != ids and name not in INDEX_NAMES]
    if key is not None:
        if key in lists:
            return [], key
        chosen = [name for name in numeric if name.startswith(key)]
        if not chosen:
            raise InputError(f"there is no list column {key!r} and no numeric column that starts with it")
        return chosen, None
    features = [name for name in numeric if name.startswith(FEATURE_PREFIX)]
    if features:
        return features, None
    if len(lists) == 1:
        return [], lists[0]
    if len(lists) > 1:
        raise InputError(
            f"several list columns could be meant ({', '.join(lists)}): name one with key=, or as FILE::NAME"
        )
    plain = [name for name in numeric if not name.startswith(METADATA_PREFIX)]
    if not plain:
        raise InputError("there is no feature_* column, no list column and no other numeric column")
    return plain, None


def _listing(shapes: dict[str, tuple[int, ...]], most: int = 12) -> str:
    shown = [f"{name} {shape}" for name, shape in list(shapes.items())[:most]]
    return ", ".join(shown) + (f" and {len(shapes) - most} more" if len(shapes) > most else "")
