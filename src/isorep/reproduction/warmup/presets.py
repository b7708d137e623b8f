"""How large each scale is: all that the text leaves open is a setting."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Training:
    """How the autoencoders of one part are trained.

    Attributes
    ----------
    widths : tuple of int
        From the image to the latents; the decoder is the mirror.
    pairs : int
        Pairs of autoencoders for each leak (and each class).
    images : int or None
        Training images at most.
    batch : int or None
        Images of a step; all at once if None.
    epochs, learning_rate, clip_norm
        Of Adam within the orthogonal matrices; the gradient of each model is clipped to this norm.
    schedule : {"cosine", "constant"}
        A constant rate keeps the last steps noisy: errors at leak 1 then end at that noise, not at zero.
    patience, min_delta
        Early stopping on the training loss; None for no early stopping.
    """

    widths: tuple[int, ...]
    pairs: int
    images: int | None
    batch: int | None
    epochs: int
    learning_rate: float = 1e-2
    clip_norm: float = 1.0
    schedule: str = "cosine"
    patience: int | None = None
    min_delta: float = 1e-6


@dataclass(frozen=True)
class Preset:
    """The sizes of one scale.

    Attributes
    ----------
    leaks : tuple of float
    digits, mnist : Training or None
        The 8 x 8 digits of scikit-learn, which are always at hand, and MNIST.
    digits_class, mnist_class : Training or None
        The same with a model for each class.
    classes : tuple of int
        Which ones.
    samples, directions : int
        Encoded images at which constants are measured, and random directions of the published estimator.
    reference_leak, percentile
        A pair is dropped if the reconstruction error of either autoencoder is above this percentile of those at the
        reference leak.
    form : {"2L+L2", "L+L2"}
        The curve err = a sqrt(form); the theorem has the first.
    statistic : {"mean of roots", "root of mean"}
        What a pair's x is: the mean over samples of sqrt(form), or sqrt(form) of the mean L.
    intercept : bool
        Fit err = a sqrt(form) + b instead.
    test_images : int
        Images at most that the held-out errors are measured on.
    """

    leaks: tuple[float, ...]
    digits: Training | None
    mnist: Training | None
    digits_class: Training | None = None
    mnist_class: Training | None = None
    classes: tuple[int, ...] = ()
    samples: int = 1000
    directions: int = 10
    reference_leak: float = 1.0
    percentile: float = 95.0
    form: str = "2L+L2"
    statistic: str = "mean of roots"
    intercept: bool = False
    test_images: int = 10_000


_LEAKS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_DIGITS = Training((64, 32, 16, 5), pairs=5, images=None, batch=None, epochs=600, learning_rate=3e-2)
_PAPER = Training(
    (784, 256, 64, 10),
    pairs=10,
    images=None,
    batch=1000,
    epochs=2000,
    learning_rate=1e-3,
    schedule="constant",
    patience=50,
)

SCALES = {
    "smoke": Preset(
        leaks=(0.2, 0.6, 1.0),
        digits=replace(_DIGITS, pairs=3, images=600, epochs=200),
        mnist=None,
        digits_class=replace(_DIGITS, pairs=1, images=None, epochs=600),
        classes=(0, 1),
        samples=100,
        test_images=300,
    ),
    "laptop": Preset(
        leaks=_LEAKS,
        digits=_DIGITS,
        mnist=Training((784, 64, 32, 5), pairs=5, images=10_000, batch=200, epochs=30),
    ),
    "paper": Preset(
        leaks=_LEAKS,
        digits=replace(_DIGITS, pairs=10, epochs=2000),
        mnist=_PAPER,
        digits_class=replace(_DIGITS, pairs=3, epochs=2000),
        mnist_class=replace(_PAPER, pairs=3),
        classes=tuple(range(10)),
    ),
}
