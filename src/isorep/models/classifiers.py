r"""Classifiers and contrastive encoders, whose features are representations.

Classifier whose two sides are representations: :math:`p(y\mid x)\propto\exp(f(x)^\top g(y))`.

A small residual network that names the class of an image, with its penultimate layer as a representation.

Contrastive pairs: two encoders that tell which second half belongs to a first among those of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..settings import check_counts
from .autoencoders import Shape, as_unit, dense
from .evaluation import nn, torch


class EmbeddingClassifier(nn.Module):
    r"""Fully connected layers :math:`f` with ReLU between them, and a vector :math:`g(y)` for each class.

    .. math:: p(y\mid x)=\frac{\exp(f(x)^\top g(y)+b_y)}{\sum_{y'}\exp(f(x)^\top g(y')+b_{y'})}

    A table of vectors is every function of the class that there is, so that :math:`g` needs no layers. Two such
    models with the same :math:`p` have :math:`f'=Af+a` if the differences of :math:`g` span the whole space, which
    takes at least one class more than dimensions (Roeder, Metz and Kingma 2021).

    Parameters
    ----------
    inputs, classes, dimension : int
        Numbers of an example, classes, and dimensions of :math:`f` and :math:`g`.
    hidden : sequence of int
        Widths between.
    bias : bool
        Whether there is a :math:`b_y`; the published model has none.
    start : float
        Standard deviation of the entries of :math:`g` before training. From small ones the classes find their order
        together; from large ones each keeps a direction of its own, and training may end in a poor optimum.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import EmbeddingClassifier
    >>> network = EmbeddingClassifier(2, classes=18, dimension=2)
    >>> network(torch.zeros(5, 2)).shape, network.represent(torch.zeros(5, 2)).shape, network.embeddings.shape
    (torch.Size([5, 18]), torch.Size([5, 2]), torch.Size([18, 2]))
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        dimension: int,
        *,
        hidden: Sequence[int] = (64, 64),
        bias: bool = False,
        start: float = 0.01,
    ) -> None:
        super().__init__()
        check_counts(inputs=(inputs, 1), classes=(classes, 2), dimension=(dimension, 1))
        if not (isinstance(start, int | float) and 0 < start < float("inf")):
            raise InputError(f"start is {start!r}: it must be a number above zero")
        self.layers = dense((inputs, *hidden, dimension))
        self.embeddings = nn.Parameter(start * torch.randn(classes, dimension))
        self.bias = nn.Parameter(torch.zeros(classes)) if bias else None

    def represent(self, inputs: Any) -> Any:
        """f(x), one row per example."""
        return self.layers(inputs)

    def forward(self, inputs: Any) -> Any:
        """The log-probabilities of the classes, up to a constant for each example."""
        logits = self.represent(inputs) @ self.embeddings.T
        return logits if self.bias is None else logits + self.bias


def label_loss(module: Any, batch: Any) -> Any:
    """Mean cross entropy of a batch (inputs, probabilities of the classes): a known label is a row with a single 1."""
    inputs, wanted = batch
    return -(wanted * torch.log_softmax(module(inputs), dim=-1)).sum(-1).mean()


_STAGES = (1, 2, 4)  # channels of each stage, in widths; each but the first halves the image
_CHANNELS_OF_A_GROUP = 8


class ResidualClassifier(nn.Module):
    r"""Three stages of residual blocks, the mean over all places, and one linear layer to the classes.

    A block is :math:`x\mapsto\mathrm{ReLU}(x+c_2(\mathrm{ReLU}(c_1(x))))`, each c a 3 x 3 convolution with a group norm
    after it, which unlike a batch norm gives an image the same code whatever else is in its batch.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images.
    classes : int
    width : int
        Channels of the first stage; ``represent`` has four times as many numbers.
    blocks : int
        Residual blocks of a stage.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import ResidualClassifier
    >>> network = ResidualClassifier((3, 16, 16), classes=10, width=8)
    >>> images = torch.rand(5, 3, 16, 16)
    >>> network(images).shape, network.represent(images).shape
    (torch.Size([5, 10]), torch.Size([5, 32]))
    """

    def __init__(self, shape: Shape, classes: int, *, width: int = 16, blocks: int = 1) -> None:
        super().__init__()
        check_counts(classes=(classes, 2), width=(width, 1), blocks=(blocks, 1))
        channels, height, low = shape
        smallest = 2 ** (len(_STAGES) - 1)
        if min(height, low) < smallest:
            raise InputError(f"images of {height} x {low} are too small: sides of at least {smallest} are needed")
        parts: list[Any] = [_convolution(channels, width, 1), nn.ReLU()]
        channels = width
        for place, stage in enumerate(_STAGES):
            for block in range(blocks):
                stride = 2 if place and not block else 1
                parts.append(_Residual(channels, stage * width, stride))
                channels = stage * width
        self.shape, self.classes = tuple(shape), classes
        self.stages = nn.Sequential(*parts)
        self.head = nn.Linear(channels, classes)

    def represent(self, images: Any) -> Any:
        """The penultimate layer, one row per image."""
        return self.stages(as_unit(images) - 0.5).mean((-2, -1))

    def forward(self, images: Any) -> Any:
        """Logits of the classes."""
        return self.head(self.represent(images))


class _Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(inputs, outputs, stride), _convolution(outputs, outputs, 1)
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, values: Any) -> Any:
        inner = self.second(nn.functional.relu(self.first(values)))
        return nn.functional.relu(self.skip(values) + inner)


def _convolution(inputs: int, outputs: int, stride: int) -> Any:
    groups = outputs // _CHANNELS_OF_A_GROUP if outputs % _CHANNELS_OF_A_GROUP == 0 else 1
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.GroupNorm(max(groups, 1), outputs)
    )


HIDDEN = (256, 256)
OUTPUTS = 64


class ContrastivePair(nn.Module):
    r"""Two fully connected encoders with ReLU, f of one view of an example and g of the other.

    .. math:: p(j\mid x_i)=\frac{\exp(f(x_i)^\top g(y_j)/\tau)}{\sum_{k}\exp(f(x_i)^\top g(y_k)/\tau)}

    over the second views of a batch. As published (Roeder et al. 2021), outputs are not normalised and :math:`\tau=1`:
    f and g are then identifiable up to linear maps where both are diverse enough. A shift of all g leaves p as it is,
    so that the last bias of g has no gradient but rounding: compare g centred.

    Parameters
    ----------
    inputs : int or tuple of two int
        Numbers of each view.
    hidden : sequence of int
        Widths between inputs and outputs, of both encoders.
    outputs : int
        Numbers that f and g give.
    normalise : bool
        Scale outputs to length 1.
    temperature : float
        :math:`\tau`.

    Examples
    --------
    >>> import torch
    >>> from isorep.models import ContrastivePair
    >>> pair = ContrastivePair((12, 8), hidden=(16,), outputs=4)
    >>> pair(torch.zeros(5, 12), torch.zeros(5, 8)).shape
    torch.Size([5, 5])
    """

    def __init__(
        self,
        inputs: int | tuple[int, int],
        *,
        hidden: Sequence[int] = HIDDEN,
        outputs: int = OUTPUTS,
        normalise: bool = False,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        first, second = (inputs, inputs) if isinstance(inputs, int) else inputs
        if min(first, second, outputs, *hidden) < 1:
            raise InputError(f"{first} and {second} inputs, widths {list(hidden)}, {outputs} outputs: all from 1 on")
        if not 0 < temperature < float("inf"):
            raise InputError(f"temperature is {temperature}: it must be above zero")
        self.normalise, self.temperature = bool(normalise), float(temperature)
        self.f = dense((first, *hidden, outputs))
        self.g = dense((second, *hidden, outputs))

    def embed(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Outputs f of the first views and g of the second, as used by the loss: (n, outputs) each."""
        found = self.f(first), self.g(second)
        if not self.normalise:
            return found
        return nn.functional.normalize(found[0], dim=-1), nn.functional.normalize(found[1], dim=-1)

    def forward(self, first: Any, second: Any) -> Any:
        """Logits (n, m): row i scores every second view against the i-th first view."""
        one, other = self.embed(first, second)
        return one @ other.mT / self.temperature


def contrastive_loss(module: Any, batch: Any) -> Any:
    r"""InfoNCE with the other examples of the batch as distractors.

    .. math:: \frac1n\sum_i\Bigl(\log\sum_j\exp\ell_{ij}-\ell_{ii}\Bigr)

    with :math:`\ell` the logits of a :class:`ContrastivePair` and ``batch`` a tuple of first and second views. At
    chance it is :math:`\log n`: losses of different batches cannot be compared.
    """
    logits = module(*batch)
    return (torch.logsumexp(logits, dim=-1) - logits.diagonal(dim1=-2, dim2=-1)).mean()
