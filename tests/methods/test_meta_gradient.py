"""The four meta-gradients against each other and against brute force."""

import pytest
import torch
from torch import nn

from oneof.methods.losses import cross_entropy, set_loss
from oneof.methods.rplg import meta_gradient
from oneof.methods.rplg.meta_gradient import (
    META_GRADIENTS,
    LookAhead,
    default_generator_state,
    difference,
    exact,
    head,
    unrolled,
)
from oneof.nets import Net, build_net
from oneof.nets.fast import with_fast_features

C, D = 4, 5


def look_ahead(net, *, seed=0, n=10, sets=False, lr=0.3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    net = net.to(dtype).train()
    x = torch.randn(n, D, generator=generator, dtype=torch.float64)
    clean_x = torch.randn(7, D, generator=generator, dtype=torch.float64)
    labels = torch.randint(C, (7,), generator=generator)
    mask = nn.functional.one_hot(labels, C).bool()
    if sets:
        mask = mask | (torch.rand(mask.shape, generator=generator) < 0.4)
    target = torch.rand(n, C, generator=generator, dtype=torch.float64)
    x, clean_x, target = x.to(dtype), clean_x.to(dtype), target.to(dtype)
    state = default_generator_state(torch.device("cpu"))
    features = net.features(x)
    return LookAhead(
        net=net,
        x=x,
        features=features,
        logits=net.head(features),
        target=target / target.sum(1, keepdim=True),
        lr=lr,
        clean_x=clean_x,
        clean_mask=mask,
        generator_state=state,
    )


def smooth_net(dropout=0.0):
    torch.manual_seed(3)
    net = build_net("mlp", D, C, hidden=(8, 7), activation="tanh", dropout=dropout).double()
    for _ in range(5):  # running statistics that are not the initial ones
        net(torch.randn(20, D, dtype=torch.float64) * 2 + 1)
    return net


def relative_error(a, b):
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_exact_difference_and_unrolled_agree_with_batch_norm(sets, dropout, monkeypatch):
    step = look_ahead(smooth_net(dropout), sets=sets)
    reference = unrolled(step)
    assert relative_error(exact(step), reference) < 1e-5
    monkeypatch.setattr(meta_gradient, "DIFFERENCE", 1e-4)  # in double precision
    assert relative_error(difference(step), reference) < 1e-5


def test_unrolled_agrees_with_numbers():
    """Brute force: move one entry of the target, redo the virtual step, look at the clean loss."""
    step = look_ahead(smooth_net())
    reference = unrolled(step)
    names = [n for n, _ in step.net.named_parameters()]

    def outer(target):
        inner = cross_entropy(step.logits, target).mean()
        slopes = torch.autograd.grad(inner, list(step.net.parameters()), retain_graph=True)
        moved = {n: p - step.lr * s for n, p, s in zip(names, step.net.parameters(), slopes)}
        step.net.eval()
        logits = torch.func.functional_call(step.net, moved, (step.clean_x,))
        step.net.train()
        return set_loss(logits, step.clean_mask).mean().item()

    for i, k in [(0, 0), (3, 2), (9, 1)]:
        nudge = torch.zeros_like(step.target)
        nudge[i, k] = 1e-5
        slope = (outer(step.target + nudge) - outer(step.target - nudge)) / 2e-5
        assert slope == pytest.approx(step.lr * float(reference[i, k]), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sets", [False, True])
def test_head_is_exact_restricted_to_the_last_layer(bias, sets):
    net = smooth_net()
    net.head = nn.Linear(7, C, bias=bias)
    for parameter in net.features.parameters():
        parameter.requires_grad_(False)
    step = look_ahead(net, sets=sets)
    assert relative_error(head(step), unrolled(step)) < 1e-10
    assert relative_error(head(step), exact(step)) < 1e-10


@pytest.mark.parametrize("sets", [False, True])
def test_for_a_linear_classifier_all_four_agree(sets, monkeypatch):
    monkeypatch.setattr(meta_gradient, "DIFFERENCE", 1e-4)
    torch.manual_seed(0)
    step = look_ahead(Net(nn.Identity(), nn.Linear(D, C)), sets=sets)
    reference = unrolled(step)
    for name, form in META_GRADIENTS.items():
        assert relative_error(form(step), reference) < 1e-6, name


def test_the_shared_graph_survives_every_form():
    step = look_ahead(smooth_net())
    for form in META_GRADIENTS.values():
        form(step)
    cross_entropy(step.logits, step.target).mean().backward()
    assert all(p.grad is not None for p in step.net.parameters())


def test_the_difference_survives_rounding_to_bf16():
    """As well as a forward-mode pass does; a step for single precision would be lost."""

    def slopes(form, rounded):
        torch.manual_seed(0)
        net = build_net("lenet", (3, 16, 16), C)
        if rounded:
            net = with_fast_features(net, torch.bfloat16, channels_last=True)
        torch.manual_seed(1)
        x, clean_x = torch.randn(32, 3, 16, 16), torch.randn(32, 3, 16, 16)
        mask = nn.functional.one_hot(torch.arange(32) % C, C).bool()
        features = net.train().features(x)
        target = torch.rand(32, C).softmax(dim=1)
        return form(LookAhead(net, x, features, net.head(features), target, 0.05, clean_x, mask)).flatten()

    reference = slopes(exact, rounded=False)
    for form in (exact, difference):
        assert torch.cosine_similarity(slopes(form, rounded=True), reference, dim=0) > 0.97


@pytest.mark.parametrize("name", list(META_GRADIENTS))
def test_single_precision_is_close(name):
    reference = META_GRADIENTS[name](look_ahead(smooth_net()))
    single = look_ahead(smooth_net(), dtype=torch.float32)
    assert relative_error(META_GRADIENTS[name](single).double(), reference) < 1e-3
