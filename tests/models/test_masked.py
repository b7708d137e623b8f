"""The masked autoencoder: patches, what is hidden, what counts in the loss, and that it learns."""

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import Group, MaskedAutoencoder, Recipe, train, train_many  # noqa: E402

SHAPE = (1, 8, 8)
SMALL = {"patch": 2, "width": 16, "depth": 2, "heads": 2, "decoder_width": 8, "decoder_depth": 1}


@pytest.fixture
def bars():
    """Bars at one of eight places: each visible patch says what the hidden ones show."""
    places = torch.randint(8, (64,), generator=torch.Generator().manual_seed(0))
    images = torch.zeros(64, *SHAPE)
    images[torch.arange(64), 0, :, places] = 1
    return images


def made(**settings):
    torch.manual_seed(0)
    return MaskedAutoencoder(SHAPE, **SMALL | settings)


def test_patches_are_cut_row_by_row_and_joined_again():
    model = MaskedAutoencoder((2, 8, 12), **SMALL)
    images = torch.rand(3, 2, 8, 12)
    patches = model.patched(images)
    assert patches.shape == (3, 24, 8)
    assert torch.equal(patches[1, 7], images[1, :, 2:4, 2:4].flatten())  # six patches a row: the second of row two
    assert torch.equal(model.joined(patches), images)


def test_hidden_patches_are_not_seen_and_visible_ones_not_scored(bars):
    model = made(masked=0.5).eval()
    order = torch.arange(16).repeat(64, 1)
    patches = model.patched(bars)
    base = model.losses({"images": bars, "order": order})["loss"]
    changed = patches.clone()
    changed[:, 8:] += 0.25  # hidden: predictions stay, targets move
    with torch.no_grad():
        codes = model.bridge(model.encoder((model.embedding(patches) + model.positions)[:, :8]))
        placed = torch.cat([codes, model.hidden.expand(64, 8, -1)], 1)
        predicted = model.pixels(model.decoder(placed + model.decoder_positions))
    for given in (patches, changed):
        by_hand = ((predicted - given)[:, 8:] ** 2).mean()
        found = model.losses({"images": model.joined(given), "order": order})["loss"]
        assert found.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert base.item() != pytest.approx(found.item(), rel=1e-3)


def test_the_order_of_drawing_does_not_move_patches(bars):
    """Two orders with the same visible set give the same loss."""
    model = made(masked=0.5)
    order = torch.arange(16).repeat(64, 1)
    other = torch.cat([order[:, :8].flip(1), order[:, 8:].flip(1)], 1)
    one, two = (model.losses({"images": bars, "order": each})["loss"].item() for each in (order, other))
    assert one == pytest.approx(two, rel=1e-5)


def test_it_learns_to_fill_in(bars):
    recipe = Recipe(steps=180, batch=32, groups=Group("adam", 3e-3), record_every=20)
    settings = SMALL | {"patch": 4, "depth": 1, "decoder_width": 16}
    build = lambda seed: MaskedAutoencoder(SHAPE, **settings, masked=0.5)  # noqa: E731
    found = train(build, bars, MaskedAutoencoder.losses, recipe, prepare=MaskedAutoencoder.prepare(4))
    assert found.history.training[-1] < 0.5 * bars.var(unbiased=False).item()
    assert found.module.encode(bars).shape == (64, 16)
    assert found.module.decode(found.module.tokens(bars)).shape == bars.shape


def test_seeds_train_as_one_program(bars):
    recipe = Recipe(steps=2, batch=32)
    given = {"seeds": [0, 1], "prepare": MaskedAutoencoder.prepare(16)}
    build = lambda seed: MaskedAutoencoder(SHAPE, **SMALL, normalise=True)  # noqa: E731
    together = train_many(build, bars, MaskedAutoencoder.losses, recipe, batched=True, **given)
    alone = train_many(build, bars, MaskedAutoencoder.losses, recipe, batched=False, **given)
    for one, other in zip(together, alone, strict=True):
        assert one.history.training == pytest.approx(other.history.training, rel=1e-4)


def test_masks_and_patches_that_do_not_fit_are_refused():
    with pytest.raises(isorep.InputError, match="no patches of 3 x 3"):
        made(patch=3)
    with pytest.raises(isorep.InputError, match="none is left to see or to predict"):
        made(masked=1.0)
    with pytest.raises(isorep.InputError, match="do not divide into 3 heads"):
        made(heads=3)
