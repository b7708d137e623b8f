"""The trainer: seeds, groups, clipping, schedules, early stopping, and many models as one program."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import isorep
from isorep.models import (
    EarlyStopping,
    Group,
    OrthogonalAutoencoder,
    Recipe,
    Schedule,
    reconstruction_loss,
    train,
    train_many,
)

DATA = np.random.default_rng(0).normal(size=(60, 6))


def small(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)).double()


def weights(trained):
    return torch.cat([value.flatten() for value in trained.module.state_dict().values()])


def jacobian_loss(module, batch):
    """A penalty with a derivative inside, and a dict of parts."""
    slope = torch.func.vmap(torch.func.jacrev(module))(batch)
    fit, penalty = ((module(batch) - batch) ** 2).mean(), (slope**2).mean()
    return {"loss": fit + 0.1 * penalty, "fit": fit, "penalty": penalty}


def noisy_loss(module, batch, generator):
    return (
        (module(batch + 0.1 * torch.randn(batch.shape, generator=generator, dtype=batch.dtype)) - batch) ** 2
    ).mean()


def with_noise(batch, generator):
    return batch + 0.1 * torch.randn(batch.shape, generator=generator, dtype=batch.dtype)


class Valley(nn.Module):
    """One parameter, whose loss is (w - target)^2 down to a floor."""

    def __init__(self, start=1.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([start], dtype=torch.float64))

    def forward(self, rows):
        return rows + self.w


ROWS = torch.zeros(4, 1, dtype=torch.float64)


def test_a_seed_decides_every_number():
    recipe = Recipe(epochs=3, batch=16)
    first, again, other = (train(small, DATA, noisy_loss, recipe, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(weights(first), weights(again))
    assert first.history.training == again.history.training
    assert not torch.equal(weights(first), weights(other))
    assert first.history.steps == (4, 8, 12)
    assert first.history.training[-1] < first.history.training[0]
    assert not first.module.training


def test_training_leaves_the_global_generator_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train(small, DATA, noisy_loss, Recipe(steps=2))
    assert torch.equal(torch.rand(3), expected)


def test_an_epoch_sees_every_row_once_and_the_next_in_another_order():
    seen = []

    def watching(module, batch):
        seen.append(batch[:, 0].tolist())
        return (module.w * batch).sum() * 0 + module.w.sum()

    train(Valley(), torch.arange(10.0, dtype=torch.float64)[:, None], watching, Recipe(epochs=2, batch=4))
    assert [len(rows) for rows in seen] == [4, 4, 2] * 2
    first, second = ([row for rows in part for row in rows] for part in (seen[:3], seen[3:]))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


@pytest.mark.parametrize("loss", [reconstruction_loss, jacobian_loss])
@pytest.mark.parametrize("batch", [None, 16])
def test_many_models_as_one_program_end_where_each_would_alone(loss, batch):
    recipe = Recipe(
        steps=12,
        batch=batch,
        groups=(Group("adamw", 0.02, ("*.weight",), {"weight_decay": 0.1}, clip_value=0.01), Group("sgd", 0.05)),
        schedule=Schedule("cosine", warmup=3),
        record_every=4,
    )
    kept = {
        how: train_many(small, DATA, loss, recipe, seeds=[5, 1, 9], batched=how, validation=DATA[:7])
        for how in (True, False)
    }
    for together, alone in zip(kept[True], kept[False], strict=True):
        assert (together.together, alone.together) == (True, False)
        assert together.seed == alone.seed
        torch.testing.assert_close(weights(together), weights(alone), atol=1e-10, rtol=0)
        np.testing.assert_allclose(together.history.training, alone.history.training, atol=1e-10)
        np.testing.assert_allclose(together.history.validation, alone.history.validation, atol=1e-10)
        assert together.history.learning_rate == alone.history.learning_rate
        assert together.history.parts.keys() == alone.history.parts.keys()


def test_prepared_noise_is_the_same_alone_and_together():
    recipe = Recipe(steps=6, batch=20)
    runs = [
        train_many(small, DATA, reconstruction_loss, recipe, seeds=[1, 2], batched=how, prepare=with_noise)
        for how in (True, False)
    ]
    for together, alone in zip(*runs, strict=True):
        torch.testing.assert_close(weights(together), weights(alone), atol=1e-10, rtol=0)


def test_the_norm_is_clipped_for_each_model_and_entries_one_by_one():
    def steep(module, batch):
        return (module.weight * torch.tensor([[3.0, 4.0]])).sum() + 0 * batch.sum()

    def moved(group):
        linear = nn.Linear(2, 1, bias=False)
        before = linear.weight.detach().clone()
        train(linear, ROWS, steep, Recipe(steps=1, groups=group))
        return (before - linear.weight.detach()).flatten().tolist()

    assert moved(Group("sgd", 1.0)) == pytest.approx([3, 4], abs=1e-6)
    assert moved(Group("sgd", 1.0, clip_norm=1.0)) == pytest.approx([0.6, 0.8], abs=1e-6)
    assert moved(Group("sgd", 1.0, clip_norm=10.0)) == pytest.approx([3, 4], abs=1e-6)
    assert moved(Group("sgd", 1.0, clip_value=3.5)) == pytest.approx([3, 3.5], abs=1e-6)


def test_one_steep_model_does_not_change_the_clipping_of_another():
    def slope(module, batch):
        return module.w.sum() ** 2 + 0 * batch.sum()

    recipe = Recipe(steps=1, groups=Group("sgd", 1.0, clip_norm=1.0))
    starts = {0: 0.25, 1: 50.0}
    flat, steep = train_many(lambda seed: Valley(starts[seed]), ROWS, slope, recipe, seeds=[0, 1], batched=True)
    assert flat.module.w.item() == pytest.approx(0.25 - 0.5)
    assert steep.module.w.item() == pytest.approx(49.0)


def test_each_parameter_belongs_to_the_first_group_that_fits():
    recipe = Recipe(steps=1, groups=(Group("sgd", 1.0, ("2.*",)), Group("sgd", 1e-12)))
    model = small(0)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    train(model, DATA, reconstruction_loss, recipe)
    for name, value in model.named_parameters():
        assert ((value - before[name]).abs().max() > 1e-6) == name.startswith("2.")
    with pytest.raises(isorep.InputError, match=r"no group of the recipe holds the parameter '2.weight'"):
        train(model, DATA, reconstruction_loss, Recipe(steps=1, groups=Group(names=("0.*",))))


def test_schedules():
    assert [Schedule().at(step, 10) for step in (0, 9)] == [1, 1]
    cosine = Schedule("cosine")
    assert cosine.at(0, 100) == 1
    assert cosine.at(50, 100) == pytest.approx(0.5)
    assert cosine.at(99, 100) < 1e-3
    assert [Schedule("linear", start=0.5).at(step, 8) for step in (0, 4, 6)] == [1, 1, 0.5]
    assert Schedule("linear", floor=0.2).at(10, 10) == pytest.approx(0.2)
    assert [Schedule("constant", warmup=3).at(step, 9) for step in range(4)] == [0.25, 0.5, 0.75, 1]
    assert Schedule("step", milestones=(0.5, 0.75), factor=0.1).at(8, 10) == pytest.approx(0.01)


def plateau(module, batch):
    """Falls by 0.1 a step at learning rate 0.1, then stays: the gradient goes on."""
    w = module.w.sum() + 0 * batch.sum()
    return torch.clamp(w, min=0.45) + 0 * w


@pytest.mark.parametrize("batched", [True, False])
def test_early_stopping_waits_for_patience_and_no_longer(batched):
    # A start of 1.0 falls to the floor of 0.45 at record 7; one of 0.7 at record 4. Three more records are waited.
    starts = {0: 1.0, 1: 0.7}
    recipe = Recipe(steps=100, groups=Group("sgd", 0.1), stop=EarlyStopping(patience=3, min_delta=1e-9), record_every=1)
    late, soon = train_many(lambda seed: Valley(starts[seed]), ROWS, plateau, recipe, seeds=[0, 1], batched=batched)
    assert (late.ended, soon.ended) == ("early", "early")
    assert len(late.history.training) == 7 + 3
    assert len(soon.history.training) == 4 + 3
    assert soon.history.training[-1] == pytest.approx(0.45)
    assert late.module.w.item() == pytest.approx(0.4)
    patient = Recipe(steps=9, groups=Group("sgd", 0.1), stop=EarlyStopping(patience=3, min_delta=1e-9), record_every=1)
    assert train(Valley(1.0), ROWS, plateau, patient).ended == "done"


@pytest.mark.parametrize("batched", [True, False])
def test_the_weights_of_the_best_record_are_given_back(batched):
    def distance(module, batch):
        return (module.w.sum() - 0.35).abs() + 0 * batch.sum()

    recipe = Recipe(
        steps=60,
        groups=Group("sgd", 0.2),
        stop=EarlyStopping(patience=2, on="validation", restore=True),
        record_every=1,
    )
    found = train_many(
        lambda seed: Valley(1.0 + seed), ROWS, distance, recipe, seeds=[0, 1], batched=batched, validation=ROWS
    )
    for trained in found:
        assert trained.ended == "early"
        left = abs(trained.module.w.item() - 0.35)
        assert left == pytest.approx(min(trained.history.validation))
        assert left < 0.11


def test_a_small_improvement_is_none():
    def crawling(module, batch):
        return module.w.sum() + 0 * batch.sum()

    recipe = Recipe(steps=50, groups=Group("sgd", 0.01), stop=EarlyStopping(patience=4, min_delta=0.5), record_every=1)
    assert len(train(Valley(), ROWS, crawling, recipe).history.training) == 5


def test_a_model_that_diverges_leaves_and_the_others_go_on():
    def risky(module, batch):
        return (module.w**3).sum() + (module.w**2).sum() + 0 * batch.sum()

    recipe = Recipe(steps=30, groups=Group("sgd", 0.3), record_every=1)
    starts = {0: 0.1, 1: -50.0}
    fine, lost = train_many(lambda seed: Valley(starts[seed]), ROWS, risky, recipe, seeds=[0, 1], batched=True)
    assert (fine.ended, lost.ended) == ("done", "diverged")
    assert abs(fine.module.w.item()) < 1e-3
    with pytest.raises(isorep.InputError, match="the loss is not finite by step"):
        train(Valley(-50.0), ROWS, risky, recipe)


def test_the_hook_is_asked_when_it_wants_to_be():
    asked = []

    def evaluate(module, step):
        assert not module.training
        asked.append(step)
        return {"norm": float(sum(value.norm() for value in module.parameters()))}

    found = train(small, DATA, reconstruction_loss, Recipe(steps=10), evaluate=evaluate, evaluate_every=4)
    assert asked == [0, 4, 8, 10]
    assert [step for step, _ in found.history.evaluations] == asked
    asked.clear()
    train_many(
        small,
        DATA,
        reconstruction_loss,
        Recipe(steps=4),
        seeds=[1, 2],
        evaluate=evaluate,
        evaluate_every=lambda s: s == 3,
    )
    assert asked == [3, 3, 4, 4]


def test_progress_counts_steps_of_all_models():
    told = []
    train_many(
        small, DATA, reconstruction_loss, Recipe(epochs=2, batch=30), seeds=[1, 2], batched=False,
        progress=lambda *words: told.append(words),
    )  # fmt: skip
    assert told == [("training", done, 8) for done in (2, 4, 6, 8)]


def test_the_program_is_chosen_by_what_it_costs_and_by_what_is_possible():
    def dropping(seed):
        return nn.Sequential(small(seed), nn.Dropout(0.5))

    def branching(module, batch):
        return reconstruction_loss(module, batch) * (2 if module(batch).sum().item() > 0 else 1)

    recipe = Recipe(steps=2)
    cases = [
        (small, reconstruction_loss, DATA, True),
        (small, noisy_loss, DATA, False),
        (dropping, reconstruction_loss, DATA, False),
        (small, branching, DATA, False),
        (small, reconstruction_loss, np.zeros((800_000, 6)), False),
    ]
    for build, loss, data, expected in cases:
        found = train_many(build, data, loss, Recipe(steps=1) if len(data) > 60 else recipe, seeds=[0, 1])
        assert [each.together for each in found] == [expected] * 2
    for build, loss, why in (
        (dropping, reconstruction_loss, "1 is a dropout"),
        (small, noisy_loss, "draws random numbers"),
    ):
        with pytest.raises(isorep.InputError, match=why):
            train_many(build, DATA, loss, recipe, seeds=[0, 1], batched=True)


def test_structured_data_and_integers_go_through():
    def classify(module, batch):
        return nn.functional.cross_entropy(module(batch["x"]), batch["label"])

    data = {"x": DATA, "label": np.arange(60) % 6}
    found = train_many(small, data, classify, Recipe(epochs=2, batch=25), seeds=[0, 1], batched=True)
    alone = train_many(small, data, classify, Recipe(epochs=2, batch=25), seeds=[0, 1], batched=False)
    torch.testing.assert_close(weights(found[1]), weights(alone[1]), atol=1e-10, rtol=0)


def test_a_factory_makes_the_optimiser():
    def factory(parameters, lr, momentum):
        return torch.optim.SGD(parameters, lr=lr, momentum=momentum)

    by_factory = train(
        small, DATA, reconstruction_loss, Recipe(steps=5, groups=Group(factory, 0.1, options={"momentum": 0.9}))
    )
    by_name = train(
        small, DATA, reconstruction_loss, Recipe(steps=5, groups=Group("sgd", 0.1, options={"momentum": 0.9}))
    )
    torch.testing.assert_close(weights(by_factory), weights(by_name), atol=1e-12, rtol=0)


BROKEN = DATA.copy()
BROKEN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("data", "recipe", "message"),
    [
        (BROKEN, {"steps": 1}, "data holds values that are not finite"),
        ((DATA, DATA[:5]), {"steps": 1}, "have 5 and 60 rows"),
        (DATA[:0], {"steps": 1}, "data has no rows"),
        ([[1.0]], {"steps": 1}, "where an array or a tensor is needed"),
        (np.array(["a"]), {"steps": 1}, "where numbers are needed"),
        (DATA, {}, "either epochs or steps"),
        (DATA, {"steps": 0}, "steps is 0"),
        (DATA, {"steps": 1, "batch": 2.5}, "batch is 2.5"),
        (DATA, {"steps": 1, "groups": Group("alchemy")}, "there is no optimiser 'alchemy'; there are adam"),
        (DATA, {"steps": 1, "groups": Group("adam", options={"colour": 1})}, "cannot be set up"),
        (DATA, {"steps": 1, "stop": EarlyStopping(on="validation")}, "needs validation rows"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(data, recipe, message):
    with pytest.raises(isorep.InputError, match=message):
        train(small, data, reconstruction_loss, Recipe(**recipe))


def test_wrong_settings_are_refused_in_a_sentence():
    for make, message in (
        (lambda: Group(learning_rate=-1), "learning_rate is -1"),
        (lambda: Group(clip_norm=math.nan), "clip_norm is nan"),
        (lambda: Schedule("wild"), "schedule is 'wild': choose from constant"),
        (lambda: EarlyStopping(patience=0), "patience of at least 1"),
        (lambda: EarlyStopping(on="luck"), "on is 'luck'"),
        (lambda: train(small, DATA, reconstruction_loss, Recipe(steps=1), seed=-1), "the seed is -1"),
        (
            lambda: train(small, DATA, reconstruction_loss, Recipe(steps=1), device="abacus"),
            "cannot use the device 'abacus'",
        ),
        (
            lambda: train(small, DATA, reconstruction_loss, Recipe(steps=1), device="meta"),
            "cannot use the device 'meta': it holds no numbers",
        ),
        (lambda: train(lambda seed: 3, DATA, reconstruction_loss, Recipe(steps=1)), "returned int, not a torch module"),
        (lambda: train(small, DATA, lambda m, b: {"fit": m(b).sum()}, Recipe(steps=1)), "has an entry 'loss'"),
        (lambda: train_many(small, DATA, reconstruction_loss, Recipe(steps=1), seeds=[1, 1]), "each only once"),
        (
            lambda: train_many(small, DATA, reconstruction_loss, Recipe(steps=1), seeds=[1], batched="no"),
            "batched is 'no'",
        ),
    ):
        with pytest.raises(isorep.InputError, match=message):
            make()


def test_orthogonal_autoencoders_train_together_as_alone():
    recipe = Recipe(
        steps=25, batch=20, groups=Group("orthogonal_adam", 0.05, clip_norm=0.01), schedule=Schedule("cosine")
    )

    def build(seed):
        return OrthogonalAutoencoder((6, 5, 3, 2), 0.3, seed=seed, dtype=torch.float64)

    together, alone = (
        train_many(build, DATA, reconstruction_loss, recipe, seeds=range(4), batched=how) for how in (True, False)
    )
    for first, second in zip(together, alone, strict=True):
        torch.testing.assert_close(weights(first), weights(second), atol=1e-8, rtol=0)
