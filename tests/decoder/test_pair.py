"""Two decoders side by side: errors keep to the bounds where the assumptions hold, and the view says where not."""

import json
import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import isorep
from isorep.decoder import DecoderPair, pair

torch = pytest.importorskip("torch")

TURN = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)


def bent(latents):
    """A gentle bend into three dimensions: smooth, injective, near an isometry."""
    return torch.cat([latents, 0.1 * latents[:, :1] ** 2], dim=1)


def turned(latents):
    return bent(latents @ TURN.T)


@pytest.fixture(scope="module")
def square():
    return torch.rand(300, 2, dtype=torch.float64, generator=torch.manual_seed(0)) - 0.5


@pytest.fixture(scope="module")
def found(square):
    def stretched(latents):  # has the same outputs for latents that are bent in the plane
        return bent(torch.stack([torch.sinh(latents[:, 0]), latents[:, 1]], dim=1))

    x = torch.stack([torch.asinh(square[:, 0]), square[:, 1]], dim=1)
    return pair(stretched, x, turned, square @ TURN, names=("a", "b"), n_null=5)


def test_measured_errors_keep_to_every_bound(found):
    assert isinstance(found, DecoderPair)
    assert not found.violated
    assert found.mismatch.largest < 1e-12
    for source in ("equal_outputs", "with_mismatch", "chords", "defect"):
        tie = found.bounds[source]
        assert found.in_sample.rms <= tie.rms.value
        assert found.certificate.lower <= tie.sup.value
    assert found.scaled_in_sample.rms <= found.bounds["scaled"].rms.value
    assert found.in_sample.rms <= found.certificate.rms_upper
    assert "No bound is violated" in found.sentence
    status = {entry.text.split(",")[0].split(":")[0]: entry.status for entry in found.assumptions}
    assert status["both models give equal outputs"] == "measured"
    assert status["both decoders are injective"] == "measured"


def test_the_sentence_says_what_outputs_that_differ_allow(square, found):
    shifted = pair(bent, square, lambda y: bent(y) + 0.01, square, n_null=0)
    equal, allowed = (shifted.bounds[source].rms.value for source in ("equal_outputs", "with_mismatch"))
    assert equal < allowed
    said = f"which allows {equal:.4f} for equal outputs and {allowed:.4f} for outputs that differ as these do."
    assert shifted.sentence.endswith(said)
    assert found.sentence.endswith(f"which allows {found.bounds['equal_outputs'].rms.value:.4f}.")


def test_no_scale_is_fitted(square):
    doubled = pair(bent, square, lambda y: bent(y / 2), 2 * square, n_null=0)
    assert doubled.in_sample.rms > 0.1
    assert doubled.scaled_in_sample.rms < 1e-7
    assert not doubled.violated
    # Up to scale the two decoders are as near an isometry as each alone.
    assert doubled.bounds["scaled"].constant < 1.2 < doubled.bounds["equal_outputs"].constant
    assert doubled.bounds["scaled"].rms.value < doubled.bounds["equal_outputs"].rms.value


def test_a_rotation_of_either_latent_space_changes_nothing(square, found):
    x = torch.stack([torch.asinh(square[:, 0]), square[:, 1]], dim=1)

    def stretched(latents):
        latents = latents @ TURN
        return bent(torch.stack([torch.sinh(latents[:, 0]), latents[:, 1]], dim=1))

    other = pair(stretched, x @ TURN.T, bent, square, names=("a", "b"), n_null=0)
    assert other.in_sample.rms == pytest.approx(found.in_sample.rms, rel=1e-6)
    for source in ("equal_outputs", "defect", "mean"):
        assert other.bounds[source].rms.value == pytest.approx(found.bounds[source].rms.value, rel=1e-6)


def test_outputs_that_differ_are_measured_and_allowed_for(square):
    noise = 0.02 * torch.rand(square.shape, dtype=torch.float64, generator=torch.manual_seed(1))
    found = pair(bent, square, bent, square + noise, n_null=0)
    assert found.mismatch.largest > 0.01
    assert found.mismatch.rms <= found.mismatch.largest
    assert found.bounds["with_mismatch"].rms.value > found.bounds["equal_outputs"].rms.value
    assert {"sup_outside", "rms_outside"} <= {entry.name for entry in found.bounds["with_mismatch"].entries}
    assert not found.violated
    assert any(entry.status == "violated" and "equal outputs" in entry.text for entry in found.assumptions)


def test_a_violated_bound_says_why(square):
    # Isometric decoders with other outputs: Theorem 1 assumes what does not hold here.
    other = torch.stack([square[:, 0], square[:, 0] * square[:, 1]], dim=1)
    found = pair(lambda z: z * 1.0, square, lambda z: z * 1.0, other, n_null=0)
    broken = {finding.source: finding for finding in found.findings if finding.answer == "violated"}
    assert found.violated
    assert set(broken) == {"equal_outputs", "scaled"}
    assert "equal outputs" in broken["equal_outputs"].why
    assert "violated" in found.sentence


def test_a_folded_image_is_seen_by_its_chords():
    angle = torch.linspace(0, 2 * math.pi - 0.05, 150, dtype=torch.float64)[:, None]

    def circle(z):
        return torch.cat([torch.cos(z), torch.sin(z)], dim=1)

    found = pair(circle, angle, circle, angle, n_null=0)
    assert found.first.constant == pytest.approx(1)
    assert found.first.chord_smallest < 0.05
    folded = next(entry for entry in found.assumptions if "folds" in entry.text)
    assert folded.status == "violated"
    assert found.ica is None


def test_widths_may_differ(square):
    wide = torch.cat([square, torch.zeros(len(square), 1, dtype=torch.float64)], dim=1)
    found = pair(bent, square, lambda z: bent(z[:, :2]), wide, n_null=0)
    assert found.in_sample.rms == pytest.approx(0, abs=1e-7)
    assert any("dimensions" in caveat for caveat in found.caveats)
    assert found.second.constant == math.inf
    narrow = pair(bent, square, lambda z: z[:, :1], square, n_null=0)
    assert narrow.mismatch is None
    assert "with_mismatch" not in narrow.bounds
    assert any("different widths" in caveat for caveat in narrow.caveats)


def test_ica_conditioning_stands_beside_the_bounds():
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(1500, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    found = pair(lambda z: z * 1.0, x, lambda z: z * 1.0, x @ turn, n_null=0)
    assert found.ica.theorem2.linear > 1
    assert [side.components for side in found.ica.sides] == [3, 3]
    assert found.ica.sides[0].gamma == pytest.approx(found.ica.sides[1].gamma, rel=1e-3)
    assert len(found.ica.sides[0].weakest) == 3


def test_it_prints_and_serialises(found, tmp_path):
    plain = json.loads(found.to_json(tmp_path / "pair.json"))
    assert plain["schema"] == "isorep.decoder_pair/1"
    assert plain["bounds"]["equal_outputs"]["entries"][0]["name"] == "theorem_1"
    assert "measured, held out" in found.table()
    assert "assumption:" in str(found)
    found.to_html(tmp_path / "pair.html")
    assert "Measured and allowed" in (tmp_path / "pair.html").read_text()


def test_rows_may_be_joined_by_id(square):
    ids = [f"row {place}" for place in range(len(square))]
    first = isorep.Representation(square.numpy(), ids=ids)
    second = isorep.Representation(square.numpy()[::-1][5:].copy(), ids=ids[::-1][5:])
    with pytest.raises(isorep.InputError, match="join"):
        pair(bent, first, bent, second)
    found = pair(bent, first, bent, second, join=True, n_null=0)
    assert found.first.rows == len(square) - 5
    assert found.in_sample.rms < 1e-9


def test_wrong_pairs_are_refused(square):
    with pytest.raises(isorep.InputError, match="rows"):
        pair(bent, square, bent, square[:-1])
    with pytest.raises(isorep.InputError, match="at least 3"):
        pair(bent, square[:2], bent, square[:2])
    with pytest.raises(isorep.InputError, match="folds"):
        pair(bent, square, bent, square, folds=1)


def test_the_command_sets_two_decoders_side_by_side(square, tmp_path, monkeypatch):
    from isorep.cli.commands import app

    np.save(tmp_path / "a.npy", square.numpy())
    np.save(tmp_path / "b.npy", (square @ TURN).numpy())
    (tmp_path / "pair_of_decoders.py").write_text(
        "import torch\n"
        "TURN = torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)\n"
        "def one(z):\n    return torch.cat([z, 0.1 * z[:, :1] ** 2], dim=1)\n"
        "def two(z):\n    return one(z @ TURN.T)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    call = ["decoder", "pair_of_decoders:one", "a.npy", "--against", "pair_of_decoders:two"]
    ran = CliRunner().invoke(app, [*call, "--against-latents", "b.npy", "--json", "p.json", "--html", "p.html"])
    assert ran.exit_code == 0, ran.output
    assert "bound: decoders, equal outputs" in ran.output
    assert json.loads((tmp_path / "p.json").read_text())["first"]["name"] == "pair_of_decoders:one"
    assert (tmp_path / "p.html").stat().st_size > 1000
    assert (
        CliRunner().invoke(app, [*call, "--against-latents", "b.npy", "--fail-above", "1.0", "--quiet"]).exit_code == 1
    )
    assert CliRunner().invoke(app, call).exit_code != 0


def test_equal_models_violate_nothing(square):
    few = square[:60]
    for found in (pair(_same, few, _same, few, n_null=0), pair(_same, few, lambda z: z / 3, 3 * few, n_null=0)):
        assert found.bounds["scaled"].rms.value == 0
        assert not found.violated


def test_rounding_of_single_precision_violates_nothing(square):
    single = square[:60].float()
    found = pair(_same, single, lambda z: z - 5, single + 5, n_null=0)
    assert found.bounds["equal_outputs"].sup.value == 0 < found.in_sample.sup
    assert not found.violated


def test_every_bound_is_held_against_what_is_measured(square, tmp_path):
    found = pair(_same, square[:60], _same, square[:60].flip(0), n_null=0)
    answers = {finding.name: finding.answer for finding in found.findings if finding.source == "equal_outputs"}
    assert answers["theorem_1"] == answers["sup_polynomial"] == answers["rms"] == "violated"
    assert answers["rms_diameter_free"] == "violated"
    assert answers["sup_trivial"] == "vacuous"
    found.to_html(tmp_path / "pair.html")
    rows = re.findall(r"<tr>.*?</tr>", (tmp_path / "pair.html").read_text(), re.DOTALL)
    assert [row for row in rows if "polynomial" in row and "equal outputs" in row and "violated" in row]


def test_an_error_says_whose_it_is(square):
    with pytest.raises(isorep.InputError, match="seed 1: the decoder fails"):
        pair(_same, square, lambda z: z @ torch.zeros(3, 3), square, names=("seed 0", "seed 1"))


def _same(latents):
    return 1 * latents


def circle(z):
    return torch.cat([torch.cos(z), torch.sin(z)], dim=1)


def test_an_image_that_meets_itself_is_named_and_a_bend_is_not():
    angle = torch.linspace(0.001, 6.25, 150, dtype=torch.float64)[:, None]
    cut = torch.where(angle < 2.5, angle, angle - 2 * math.pi)
    found = pair(circle, angle, circle, cut, n_null=0)
    assert found.violated
    assert "no image folds back on itself" in found.sentence
    assert "continuously differentiable" not in found.sentence
    # Half a circle bends as much and meets itself nowhere: there another assumption fails.
    half = angle / 2
    other = pair(circle, half, circle, half.flip(0) ** 2 / 3, n_null=0)
    assert other.violated
    assert "equal outputs" in other.sentence
    assert "folds" not in other.sentence


def test_chords_of_an_isometry_hold_in_single_precision():
    line = torch.rand(400, 1, generator=torch.manual_seed(0))
    found = pair(
        lambda z: torch.cat([0.6 * z, 0.8 * z + 3], 1), line, lambda z: torch.cat([0.6 * z, 0.8 * z + 3], 1), line
    )
    status = {entry.text: entry.status for entry in found.assumptions}
    assert next(status[text] for text in status if "lower constants hold for chords" in text) == "measured"
    assert next(status[text] for text in status if "constants hold everywhere" in text) == "not tested"


def test_a_chord_that_is_stretched_more_than_any_direction_is_seen():
    line = torch.linspace(-1, 1, 100, dtype=torch.float64)[:, None]

    def jump(z):
        return z + (z > 0).to(z.dtype)

    found = pair(jump, line, _same, jump(line), n_null=0)
    assert found.violated
    assert "constants hold everywhere" in found.sentence
    assert "a chord is stretched" in found.sentence
