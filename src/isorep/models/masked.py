"""A masked autoencoder: a small vision transformer that learns to fill in hidden patches."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .autoencoders import Prepare, Shape, as_unit
from .evaluation import nn, torch
from .gpt import Block


class MaskedAutoencoder(nn.Module):
    """Encode the patches that are seen, and predict the pixels of those that are hidden.

    The encoder sees visible patches alone; the decoder sees their codes, and a learnt token wherever a patch is hidden,
    at all positions. The loss is the mean squared error of hidden patches. Which patches are hidden is drawn by
    ``prepare``, so that a batch is a dict of ``images`` and ``order``.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the images; both sides are multiples of ``patch``.
    patch : int
        Side of a patch.
    width, depth, heads : int
        Of the encoder.
    decoder_width, decoder_depth : int
        Of the decoder, with as many heads.
    masked : float
        The share of patches that is hidden.
    normalise : bool
        Whether each patch is predicted with its own mean and deviation taken away.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        patch: int = 4,
        width: int = 64,
        depth: int = 4,
        heads: int = 4,
        decoder_width: int = 32,
        decoder_depth: int = 2,
        masked: float = 0.75,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        channels, height, low = shape
        if patch < 1 or height % patch or low % patch:
            raise InputError(f"images of {height} x {low} have no patches of {patch} x {patch}")
        if width % heads or decoder_width % heads:
            raise InputError(f"widths of {width} and {decoder_width} do not divide into {heads} heads")
        self.shape, self.patch, self.normalise = tuple(shape), patch, normalise
        self.patches = (height // patch) * (low // patch)
        self.visible = self.patches - round(masked * self.patches)
        if not 0 < self.visible < self.patches:
            raise InputError(f"with {masked:g} of {self.patches} patches hidden, none is left to see or to predict")
        self.masked = float(masked)
        size = channels * patch * patch
        self.embedding = nn.Linear(size, width)
        self.positions = nn.Parameter(0.02 * torch.randn(self.patches, width))
        self.encoder = nn.Sequential(*(Block(width, heads) for _ in range(depth)), nn.LayerNorm(width))
        self.bridge = nn.Linear(width, decoder_width)
        self.hidden = nn.Parameter(0.02 * torch.randn(decoder_width))
        self.decoder_positions = nn.Parameter(0.02 * torch.randn(self.patches, decoder_width))
        self.decoder = nn.Sequential(
            *(Block(decoder_width, heads) for _ in range(decoder_depth)), nn.LayerNorm(decoder_width)
        )
        self.pixels = nn.Linear(decoder_width, size)

    def encode(self, images: Any) -> Any:
        """The mean code of all patches, none of them hidden."""
        return self.tokens(images).mean(1)

    def tokens(self, images: Any) -> Any:
        """The code of every patch, none of them hidden."""
        return self.encoder(self.embedding(self.patched(as_unit(images))) + self.positions)

    def decode(self, tokens: Any) -> Any:
        """Images for codes of all patches, as ``tokens`` gives them."""
        return self.joined(self._predicted(self.bridge(tokens)))

    def losses(self, batch: Any) -> dict[str, Any]:
        """The mean squared error of the patches that come last in the order."""
        patches, order = self.patched(as_unit(batch["images"])), batch["order"]
        seen = order[:, : self.visible]
        embedded = self.embedding(patches) + self.positions
        codes = self.bridge(self.encoder(taken(embedded, seen)))
        hidden = self.hidden.expand(len(codes), self.patches - self.visible, -1)
        # From the order they were drawn in, back to where they lie in the image.
        placed = taken(torch.cat([codes, hidden], 1), order.argsort(1))
        wanted = self._normalised(patches) if self.normalise else patches
        errors = ((self._predicted(placed) - wanted) ** 2).mean(-1)
        return {"loss": torch.gather(errors, 1, order[:, self.visible :]).mean()}

    @staticmethod
    def prepare(patches: int) -> Prepare:
        """Images with a random order of so many patches for each."""

        def drawn(batch: Any, generator: Any) -> dict[str, Any]:
            draws = torch.rand(len(batch), patches, generator=generator, device=batch.device)
            return {"images": batch, "order": draws.argsort(1)}

        return drawn

    def patched(self, images: Any) -> Any:
        """Images (n, c, h, w) as patches (n, patches, c * side * side), row by row."""
        n, side = len(images), self.patch
        channels, height, low = self.shape
        parts = images.reshape(n, channels, height // side, side, low // side, side)
        return parts.permute(0, 2, 4, 1, 3, 5).reshape(n, self.patches, channels * side * side)

    def joined(self, patches: Any) -> Any:
        """Patches as images again."""
        n, side = len(patches), self.patch
        channels, height, low = self.shape
        parts = patches.reshape(n, height // side, low // side, channels, side, side)
        return parts.permute(0, 3, 1, 4, 2, 5).reshape(n, channels, height, low)

    def _predicted(self, codes: Any) -> Any:
        return self.pixels(self.decoder(codes + self.decoder_positions))

    def _normalised(self, patches: Any) -> Any:
        mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True, unbiased=False)
        return (patches - mean) / (variance + 1e-6).sqrt()


def taken(tokens: Any, places: Any) -> Any:
    """Tokens (n, patches, width) at places (n, some)."""
    return torch.gather(tokens, 1, places[..., None].expand(*places.shape, tokens.shape[-1]))
