"""Result of :func:`isorep.disentangle`: frozen records with printing, tables and JSON.

An autoencoder with its unmixing is saved to a safetensors file; loaded files are checked, as they are not trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..comparison import Ensemble
from ..errors import InputError
from ..files import replacing, require_writable
from ..ica import Cards
from ..models.load import weights_of
from ..representation import Array
from ..results import ResultRecord, aligned, told, wrapped
from ..storage.model_files import Facts, ModelFile, Shapes, require_model_path, save_arrays
from .images import as_pictures
from .traversals import Sheet, decoded, encoded
from .unmixing import Unmixing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HALF = 0.5
"""Share of the held-out variance below which most of it is lost."""
COMES_BACK = 0.9
"""Correlation above which a component of another training counts as the same."""


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes
    ----------
    seed : int
    loss : float
        Mean cross-entropy per pixel at the end.
    lost : float
        Squared error of held-out reconstructions, as a share of the variance of the pixels; nan where these images
        are all alike.
    directions : int
        Directions of the latents that the decoder responds to.
    constant, condition : float
        Bi-Lipschitz constant of the decoder up to scale, and median condition number, among these.
    activity : tuple of float
        Effect of each direction on the images, relative to the most active.
    converged : bool
        Whether ICA converged.
    kept, principal : float
        Share of the held-out variance that the components keep, and that as many principal components of the pixels
        keep; nan where these images are all alike.
    ahead : bool
        Whether the components keep more, by two standard errors of the paired difference over held-out images.
    """

    seed: int
    loss: float
    lost: float
    directions: int
    constant: float
    condition: float
    activity: tuple[float, ...]
    converged: bool
    kept: float
    principal: float
    ahead: bool


@dataclass(frozen=True)
class Component:
    """A component of the first training: its correlation with its match in each other one, and reproducibility."""

    name: str
    correlations: tuple[float, ...]
    comes_back: bool | None
    gaussian: bool


@dataclass(frozen=True, eq=False)
class Disentangler:
    """An autoencoder with its unmixing, as saved to a file.

    Attributes
    ----------
    module : torch.nn.Module
    unmixing : Unmixing
    size : int
        Side of the images it takes.
    """

    module: Any = field(repr=False)
    unmixing: Unmixing = field(repr=False)
    size: int

    def transform(self, images: Any) -> Array:
        """The components of images: ica0, ica1, ..."""
        pictures = as_pictures(images, size=self.size, fewest=1, channels=self.module.shape[0])
        return self.unmixing.transform(encoded(self.module, pictures.values))

    def draw(self, components: Any) -> Array:
        """Images in [0, 1] of shape (n, size, size, channels) for components."""
        drawn = decoded(self.module, self.unmixing.inverse_transform(np.atleast_2d(np.asarray(components))))
        return drawn.transpose(0, 2, 3, 1)


@dataclass(frozen=True, eq=False)
class Disentanglement(Disentangler, ResultRecord):
    """The result of :func:`isorep.disentangle`: the first autoencoder, and the reproducibility of its components.

    Attributes
    ----------
    module : torch.nn.Module
        The first autoencoder.
    unmixing : Unmixing
        Map from its latents to components.
    trainings : tuple of Training
    components : tuple of Component
        Components, ordered by their effect on the images.
    sheet : Sheet
        Traversals of the components; ``rows`` lists which.
    reconstructions : Sheet
        Held-out images from the best reconstructed to the worst. From the top: originals, reconstructions from the
        components, their difference (grey is none), and reconstructions from as many principal components.
    ensemble : Ensemble or None
        Agreement of the latents of all trainings, by :func:`isorep.compare_many`.
    cards : Cards or None
        What each component is: extreme images read against columns, associations, histogram; in their order.
    """

    schema: ClassVar[str] = "isorep.disentangle/1"
    page_by: ClassVar[str] = "disentangling.page:page"
    unwritten: ClassVar[frozenset[str]] = frozenset({"module", "unmixing", "size", "ensemble"})
    derived: ClassVar[tuple[str, ...]] = ("verdict", "learnt", "agreement")
    trainings: tuple[Training, ...]
    components: tuple[Component, ...]
    sheet: Sheet = field(repr=False)
    rows: tuple[int, ...]
    reconstructions: Sheet = field(repr=False)
    ensemble: Ensemble | None = field(repr=False)
    data: dict[str, Any]
    settings: dict[str, Any]
    caveats: tuple[str, ...] = ()
    seconds: float = 0.0
    cards: Cards | None = field(default=None, repr=False)

    @property
    def worst(self) -> Training:
        """The training whose components do worst compared with principal components, or else keep least."""
        return min(self.trainings, key=lambda each: (each.ahead, each.kept > each.principal, each.kept))

    @property
    def learnt(self) -> bool | None:
        """Whether components of every training keep half of the held-out variance, and more than principal components.

        None where the held-out images are all equal, or too few or too variable to decide.
        """
        worst = self.worst
        if np.isnan(worst.kept):
            return None
        if min(each.kept for each in self.trainings) < HALF:
            return False
        return None if worst.kept > worst.principal and not worst.ahead else worst.ahead

    @property
    def verdict(self) -> str:
        """Reproducible components, and the held-out variance they keep compared with principal components."""
        worst, returned = self.worst, self.returned
        if np.isnan(worst.kept):
            return f"{returned}; the variance they keep is unknown, because the held-out images are all equal."
        count, several = worst.directions, len(self.trainings) > 1
        keep = f"{count} component{' keeps' if count == 1 else 's keep'} {_share(worst.kept)} of the held-out variance"
        as_many = f"{count} principal component{'' if count == 1 else 's'} of the pixels {_share(worst.principal)}"
        numbers = f"{keep}{' in the worst training' if several else ''}, {as_many}"
        if not worst.ahead and worst.kept > worst.principal:
            return f"Not shown to be better than principal components: {numbers}. {returned}."
        if not worst.ahead:
            return f"No better than principal components: {numbers}. {returned}."
        if worst.kept < HALF:
            return f"Most of the held-out variance is lost: {numbers}. {returned}."
        return f"{returned}: {numbers}."

    @property
    def returned(self) -> str:
        """Which components are reproducible, in words without a full stop."""
        count = len(self.components)
        if self.ensemble is None:
            return f"{count} component{'' if count == 1 else 's'} from a single training"
        back = sum(component.comes_back is True for component in self.components)
        others = len(self.trainings) - 1
        trainings = {1: "the other training", 2: "both other trainings"}.get(others, f"all {others} other trainings")
        if count == 1:
            return f"The only component is {'' if back else 'not '}reproducible in {trainings}"
        if back == count:
            return f"All {count} components are reproducible in {trainings}"
        return f"{back or 'None'} of {count} components {'is' if back == 1 else 'are'} reproducible in {trainings}"

    def save(self, path: str | Path) -> None:
        """Write autoencoder and unmixing to a ``.safetensors`` file: arrays and JSON, nothing to unpickle."""
        target, unmixing = require_model_path(path), self.unmixing
        arrays = {f"network.{name}": np.ascontiguousarray(value) for name, value in weights_of(self.module).items()}
        for name in ("mean", "matrix", "back"):
            arrays[f"unmixing.{name}"] = np.ascontiguousarray(getattr(unmixing, name), dtype=np.float64)
        facts = dict(zip(("channels", "height", "width"), self.module.shape, strict=True)) | {
            "format": FORMAT,
            "latents": self.module.latents,
            "components": unmixing.components,
            "network": self.settings["network"],
            "kind": unmixing.kind,
        }
        save_arrays(target, arrays, facts)

    def save_sheet(self, path: str | Path) -> None:
        """Write the traversals as a PNG file."""
        path = Path(path)
        require_writable(path)
        with replacing(path) as temporary:
            temporary.write_bytes(self.sheet.png)

    def table(self) -> str:
        """The components as text."""
        rows = [("component", "reproducible", "correlations", "")]
        for component in self.components:
            said = {True: "yes", False: "no", None: "-"}[component.comes_back]
            shared = " ".join(f"{value:.2f}" for value in component.correlations) or "-"
            rows.append((component.name, said, shared, "near-Gaussian" if component.gaussian else ""))
        return aligned(rows, left=(0, 1, 3))

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row per component: if it came back, its correlation with each other training, if it is near-Gaussian."""
        return [
            {"component": each.name, "comes_back": each.comes_back}
            | {f"correlation_{at}": value for at, value in enumerate(each.correlations, start=1)}
            | {"gaussian": each.gaussian}
            for each in self.components
        ]

    def panels(self) -> list[str]:
        """A single training has nothing to be compared with."""
        return [] if self.ensemble is None else super().panels()

    def plot_ladder(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """How far the latents of all trainings agree; see :meth:`isorep.Ensemble.plot_ladder`."""
        return self._several().plot_ladder(ax, width=width)

    def plot_components(self, ax: Axes | None = None, *, width: str = "single") -> Axes:
        """The least correlation of each component with its match in the other trainings, and all of them as dots."""
        from ..report.plots import columns

        self._several()
        shared = [each.correlations for each in self.components]
        return columns(
            ax,
            [min(values) for values in shared],
            "correlation with its match",
            "component",
            names=[each.name for each in self.components],
            groups=["near-Gaussian" if each.gaussian else "non-Gaussian" for each in self.components],
            reference=(COMES_BACK, "found again above"),
            spread=shared,
            width=width,
        )

    def _several(self) -> Ensemble:
        if self.ensemble is None:
            raise InputError("there is one training only: ask for n_seeds=2 or more to compare them")
        return self.ensemble

    @property
    def agreement(self) -> dict[str, Any] | None:
        """Agreement of the latents of all trainings, rung by rung; None for a single training."""
        if self.ensemble is None:
            return None
        rungs = {
            name: {"mean": rung.mean, "worst": rung.max, "null": None if rung.null is None else np.nanmean(rung.null)}
            for name, rung in self.ensemble.rungs.items()
        }
        return {"sentence": self.ensemble.verdict.sentence, "rungs": rungs}

    def __str__(self) -> str:
        first = self.trainings[0]
        responds = f"responds to {first.directions} of {len(first.activity)} directions"
        loss = "" if np.isnan(first.lost) else f"; reconstructions lose {first.lost:.1%} of the variance"
        lines = [f"decoder: {responds}, constant {first.constant:.3g} up to scale among these{loss}"]
        if self.ensemble is not None:
            lines.append(f"latents of all trainings: {self.ensemble.verdict.sentence}")
        cards = () if self.cards is None else (self.cards.text(),)
        return told(self.verdict, self.table(), "\n".join(map(wrapped, lines)), *cards, notes=self.caveats)


def _share(value: float) -> str:
    """A share of variance in words; negative shares count as none."""
    return f"{value:.0%}" if value > 0 else "nothing"


FORMAT = "isorep disentangled autoencoder 1"
_MOST_LATENTS, _MOST_SIDE = 4096, 256


def load(path: str | Path) -> Disentangler:
    """Load an autoencoder and its unmixing from a file; damaged or foreign files raise an error."""
    file = ModelFile(path, FORMAT)
    facts, arrays = file.read(lambda facts: _check(file, facts), _shapes)
    from ..models.evaluation import torch

    module = _network(facts)
    weights = {name.removeprefix("network."): value for name, value in arrays.items() if name.startswith("network.")}
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    mean, matrix, back = (arrays[f"unmixing.{name}"] for name in ("mean", "matrix", "back"))
    return Disentangler(module.eval(), Unmixing(str(facts["kind"]), mean, matrix, back, True), int(facts["height"]))


def _check(file: ModelFile, facts: Facts) -> None:
    file.require_counts(facts, "channels", "height", "width", "latents", "components")
    if facts["channels"] not in (1, 3) or facts["height"] != facts["width"] or facts["height"] > _MOST_SIDE:
        file.refuse("its images are not squares of 1 or 3 channels and a sensible size")
    if facts["latents"] > _MOST_LATENTS or facts["components"] > facts["latents"]:
        file.refuse("its numbers of latents and components do not fit")
    if not isinstance(facts.get("network"), str) or not isinstance(facts.get("kind"), str):
        file.refuse("it does not say what network it is")
    try:
        _network(facts, empty=True)
    except InputError as error:
        file.refuse(str(error))


def _shapes(facts: Facts) -> Shapes:
    latents, components = facts["latents"], facts["components"]
    shapes: Shapes = {
        f"network.{name}": ("F32", tuple(value.shape))
        for name, value in _network(facts, empty=True).state_dict().items()
    }
    return shapes | {
        "unmixing.mean": ("F64", (latents,)),
        "unmixing.matrix": ("F64", (components, latents)),
        "unmixing.back": ("F64", (latents, components)),
    }


def _network(facts: Facts, empty: bool = False) -> Any:
    """The network described by the facts; ``empty`` ones take no memory."""
    from ..models import PlainAutoencoder
    from ..models.evaluation import torch

    shape = (facts["channels"], facts["height"], facts["width"])
    with torch.device("meta" if empty else "cpu"):
        return PlainAutoencoder(shape, facts["latents"], network=facts["network"])
