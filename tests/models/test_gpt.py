"""The small GPT: the loss by hand, causality, states, the remaining blocks' Jacobians, and that it learns."""

import math

import pytest

import isorep

torch = pytest.importorskip("torch")

from isorep.models import GPT, Group, Recipe, next_token_loss, train, train_many  # noqa: E402
from isorep.models.gpt import state_jacobians  # noqa: E402

SMALL = {"vocabulary": 11, "width": 8, "n_layers": 2, "n_heads": 2, "context": 6}


def made(**settings):
    torch.manual_seed(0)
    model = GPT(**SMALL | settings)
    for parameter in model.parameters():  # larger than at the start, so that every part tells
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


@pytest.fixture
def tokens():
    return torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(1))


def test_the_loss_is_the_cross_entropy_by_hand():
    class Fixed(torch.nn.Module):
        """After any token, token 1 has odds of three to one against each of the two others."""

        def forward(self, tokens):
            return torch.tensor([0.0, math.log(3.0), 0.0]).expand(*tokens.shape, 3)

    found = next_token_loss(Fixed(), torch.tensor([[0, 1, 1], [2, 0, 2]]))
    assert found.item() == pytest.approx(-(2 * math.log(3 / 5) + 2 * math.log(1 / 5)) / 4, rel=1e-6)


def test_one_block_is_the_formula(tokens):
    model = made(n_layers=1, n_heads=1)
    states = model.hidden_states(tokens)
    block, x = model.blocks[0], states[0][0]
    query, key, value = block.queries(block.before(x)).chunk(3, dim=-1)
    mixed = torch.stack(
        [torch.softmax(key[: t + 1] @ query[t] / 8**0.5, dim=0) @ value[: t + 1] for t in range(len(x))]
    )
    by_hand = x + block.out(mixed)
    by_hand = by_hand + block.dense(block.between(by_hand))
    assert torch.allclose(states[1][0], by_hand, atol=1e-5)


def test_no_state_depends_on_later_tokens(tokens):
    model = made()
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 3) % 11
    for before, after in zip(model.hidden_states(tokens), model.hidden_states(changed), strict=True):
        assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6)
        assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-2)
    earlier = tokens.clone()
    earlier[:, 0] = (earlier[:, 0] + 1) % 11
    assert not torch.allclose(model(tokens)[:, -1], model(earlier)[:, -1], atol=1e-3)


def test_states_are_embedding_blocks_and_final_norm(tokens):
    model = made()
    states = model.hidden_states(tokens)
    assert [tuple(state.shape) for state in states] == [(3, 6, 8)] * 4
    assert torch.allclose(states[0], model.embedding(tokens) + model.positions.weight, atol=1e-5)
    assert torch.allclose(model(tokens), states[-1] @ model.head.weight.T, atol=1e-5)
    assert torch.allclose(states[-1], model.norm(states[-2]), atol=1e-5)


def test_a_tied_head_is_the_embedding(tokens):
    model = made(tied=True)
    assert not any("head" in name for name, _ in model.named_parameters())
    assert torch.allclose(model(tokens), model.hidden_states(tokens)[-1] @ model.embedding.weight.T, atol=1e-5)


def test_the_last_position_alone_is_what_all_together_give(tokens):
    model = made()
    states = model.hidden_states(tokens)
    found = model.blocks[1].last(states[1][0, -1], states[1][0, :-1])
    assert torch.allclose(found, states[2][0, -1], atol=1e-5)


def test_jacobians_are_those_of_the_blocks_that_remain(tokens):
    model = made()
    found = state_jacobians(model, tokens)
    assert len(found) == 4
    assert torch.equal(found[-1][0], torch.eye(8))

    def rest(last, earlier, blocks):
        state = torch.cat([earlier, last[None]])[None]
        for block in blocks:
            state = block(state)
        return model.norm(state[0, -1])

    states = model.hidden_states(tokens)
    for layer in range(3):
        state = states[layer][1].detach()
        whole = torch.autograd.functional.jacobian(
            lambda last, state=state, layer=layer: rest(last, state[:-1], model.blocks[layer:]), state[-1]
        )
        assert torch.allclose(found[layer][1], whole, atol=1e-4)


def test_it_learns_to_count():
    rows = (torch.arange(5)[:, None] + torch.arange(7)) % 11
    recipe = Recipe(steps=120, groups=Group("adamw", 1e-2), record_every=20)
    trained = train(lambda seed: GPT(**SMALL), rows, next_token_loss, recipe)
    assert trained.history.training[-1] < 0.1 < 1.5 < trained.history.training[0]


def test_seeds_train_as_one_program(tokens):
    recipe = Recipe(steps=3, batch=2)
    given = {"seeds": [0, 1]}
    together = train_many(lambda seed: GPT(**SMALL), tokens, next_token_loss, recipe, batched=True, **given)
    alone = train_many(lambda seed: GPT(**SMALL), tokens, next_token_loss, recipe, batched=False, **given)
    for one, other in zip(together, alone, strict=True):
        assert one.history.training == pytest.approx(other.history.training, rel=1e-4)
    assert together[0].history.training != together[1].history.training


def test_sizes_that_do_not_fit_are_refused(tokens):
    with pytest.raises(isorep.InputError, match="width of 8 does not divide into 3 heads"):
        made(n_heads=3)
    with pytest.raises(isorep.InputError, match="0 layers"):
        made(n_layers=0)
    with pytest.raises(isorep.InputError, match="6 tokens are more than the context of 4"):
        made(context=4)(tokens)
