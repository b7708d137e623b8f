"""Encoders and decoders of images: sizes, shapes, and what each latent reaches."""

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models.autoencoders import ConvEncoder, StyleDecoder, make_networks  # noqa: E402


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
    with pytest.raises(isorep.InputError, match="network is 'resnet': choose from published, light, dense"):
        make_networks("resnet", (1, 32, 32), outputs=2, latents=2)
    with pytest.raises(isorep.InputError, match="channels, height and width"):
        make_networks("dense", (32, 32), outputs=2, latents=2)
