"""Encoders and decoders of images: sizes, shapes, and what each latent reaches."""

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models.autoencoders import ConvEncoder, PlainAutoencoder, StyleDecoder, make_networks  # noqa: E402


def count(module):
    return sum(each.numel() for each in module.parameters())


def test_the_published_networks_have_as_many_parameters_as_published():
    encoder, decoder = make_networks("published", (3, 64, 64), outputs=12, latents=12)
    # Convolutions, norms, head; no convolution has a bias.
    widths = [3, *[32] * 3, *[64] * 3, *[128] * 3, *[256] * 3]
    convolutions = sum(
        wide * narrow * kernel**2 for wide, narrow, kernel in zip(widths, widths[1:], (3, 3, 4) * 4, strict=False)
    )
    norms = 2 * sum(widths[1:])
    head = (4096 + 1) * 256 + 257 * 256 + 257 * 12
    assert count(encoder) == convolutions + norms + head
    assert count(encoder) == pytest.approx(3.7e6, rel=0.01)
    assert count(decoder) == pytest.approx(4.0e6, rel=0.01)
    assert sum(isinstance(part, torch.nn.Conv2d) for part in encoder.modules()) == 12
    assert sum(isinstance(part, torch.nn.ConvTranspose2d) for part in decoder.modules()) == 12
    assert not [part for part in decoder.modules() if isinstance(part, torch.nn.InstanceNorm2d) and part.affine]
    assert torch.equal(decoder.constant, torch.full((256, 4, 4), 0.1))


@pytest.mark.parametrize("kind", ["published", "light", "dense"])
def test_images_go_in_and_come_out_in_their_own_shape(kind):
    encoder, decoder = make_networks(kind, (1, 32, 48), outputs=7, latents=5)
    assert encoder(torch.rand(2, 1, 32, 48)).shape == (2, 7)
    assert decoder(torch.randn(2, 5)).shape == (2, 1, 32, 48)


def test_a_style_decoder_draws_one_image_for_one_style():
    torch.manual_seed(0)
    decoder = StyleDecoder(3, (3, 32, 32), width=4)
    latents = torch.randn(4, 3)
    latents[1] = latents[0]
    drawn = decoder(latents)
    assert torch.allclose(drawn[0], drawn[1], atol=1e-5)
    assert not torch.allclose(drawn[0], drawn[2])
    alone = decoder(latents[2:3])  # instances are normalised one by one: the rest of the batch says nothing
    assert torch.allclose(alone[0], drawn[2], atol=1e-5)


def test_gradients_reach_every_parameter():
    torch.manual_seed(0)
    encoder, decoder = ConvEncoder((3, 32, 32), 4, width=16), StyleDecoder(4, (3, 32, 32), width=16)
    (decoder(encoder(torch.rand(3, 3, 32, 32))) ** 2).mean().backward()
    for module in (encoder, decoder):
        for name, each in module.named_parameters():
            assert each.grad is not None, name
            assert each.grad.abs().sum() > 0, name


def test_what_cannot_be_built_is_refused():
    with pytest.raises(isorep.InputError, match="sides are multiples of 16 from 32 on, not 28 x 28"):
        make_networks("published", (1, 28, 28), outputs=2, latents=2)
    with pytest.raises(isorep.InputError, match="network is 'resnet': choose from published, light, spatial, dense"):
        make_networks("resnet", (1, 32, 32), outputs=2, latents=2)
    with pytest.raises(isorep.InputError, match="channels, height and width"):
        make_networks("dense", (32, 32), outputs=2, latents=2)


def test_a_spatial_network_starts_from_the_mean_image():
    mean = torch.rand(3, 16, 20) * 0.8 + 0.1
    model = PlainAutoencoder((3, 16, 20), 4, network="spatial")
    model.start_from(mean.numpy(), 0.2)
    with torch.no_grad():
        for part in model.decoder.convolutions.parameters():
            part.zero_()
        assert torch.allclose(model.decode(torch.randn(2, 4)), mean.expand(2, 3, 16, 20), atol=1e-5)
    latents = model.encode(torch.rand(5, 3, 16, 20))
    assert latents.shape == (5, 4)
    assert {"encoder.mean", "encoder.spread", "decoder.bias"} <= set(model.state_dict())
    plain = PlainAutoencoder((3, 16, 20), 4)
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    plain.start_from(mean.numpy(), 0.2)  # the others take images as they are
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())


def test_where_a_spatial_network_looks_moves_with_the_image():
    """Attention is on places: an image that is moved by whole strides moves them by as much, but for its borders."""
    encoder = make_networks("spatial", (1, 32, 32), outputs=2, latents=2)[0]
    image = torch.zeros(1, 1, 32, 32)
    image[..., 8:12, 8:12] = 1.0
    with torch.no_grad():
        encoder.convolutions[0].weight[:, 1:] = 0.0  # blind to coordinates
        here, there = (
            encoder.convolutions(torch.cat([each, torch.zeros(1, 2, 32, 32)], dim=1))
            for each in (image, image.roll((8, 8), dims=(2, 3)))
        )
    assert torch.allclose(here[..., 2:4, 2:4], there[..., 4:6, 4:6], atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 18, 18), (3, 32, 30)])
def test_sides_that_a_spatial_network_cannot_halve_twice_are_refused(shape):
    with pytest.raises(isorep.InputError, match="sides are multiples of 4 from 16 on"):
        make_networks("spatial", shape, outputs=2, latents=2)
