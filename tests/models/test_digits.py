import numpy as np

from isorep.models import load_digit_images, train_autoencoder


def test_training_lowers_the_loss_and_a_seed_repeats_itself():
    images = load_digit_images()[:300]
    seen = []
    first = train_autoencoder(images, epochs=5, seed=3, progress=lambda epoch, loss: seen.append((epoch, loss)))
    second = train_autoencoder(images, epochs=5, seed=3)
    assert first.losses[-1] < first.losses[0]
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(first.encode(images), second.encode(images))
    assert first.encode(images).shape == (300, 5)


def test_the_latents_are_what_the_bottleneck_receives():
    images = load_digit_images()[:200]
    trained = train_autoencoder(images, epochs=2, seed=0)
    net = trained.network
    rebuilt = np.tanh(np.tanh(trained.encode(images)) @ net.coefs_[2] + net.intercepts_[2]) @ net.coefs_[3]
    np.testing.assert_allclose(rebuilt + net.intercepts_[3], net.predict(images), atol=1e-12)
