"""Networks: sizes, and a user's own module seen as features and head."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from oneof import PartialLabelClassifier, load
from oneof.nets import Net, as_net, build_net, evaluation_mode, linear, mlp
from tests.test_inputs import problem


class Cut(nn.Module):
    """A plain module: its last step is a linear layer, under a name of its own."""

    def __init__(self, out=3):
        super().__init__()
        self.out = nn.Linear(6, out)  # registered first, applied last
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU())

    def forward(self, x):
        return self.out(self.body(x))


class Last(nn.Module):
    def __init__(self, after=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
        self.out = nn.Linear(16, 3)
        self.after = after or nn.Identity()

    def forward(self, x):
        return self.after(self.out(self.body(x)))


class Doubled(nn.Module):
    def forward(self, x):
        return x, x


class Attributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.head = nn.Linear(5, 3)

    def features(self, x):
        return self.body(x).relu()

    def forward(self, x):
        return self.head(self.features(x))


class Conv(nn.Module):
    """For inputs (n, 1, 8, 8)."""

    def __init__(self, classes=3):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        return self.classifier(self.layers(x))


class Attention(nn.Module):
    """Its last nn.Linear is looked into by the layer around it, so that it cannot be taken out."""

    def __init__(self):
        super().__init__()
        self.head_in = nn.Linear(4, 4)
        self.attention = nn.MultiheadAttention(4, 1, batch_first=True)

    def forward(self, x):
        h = self.head_in(x)[:, None]
        return self.attention(h, h, h)[0][:, 0]


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def seeded(make):
    """A network whose first weights are the same in every run of the tests."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def quiet(net, x):
    with evaluation_mode(net), torch.no_grad():
        return net(x)


def test_linear_and_mlp():
    net = linear(4, 3)
    assert torch.equal(net.features(X), X)
    assert net(X).shape == (5, 3)
    net = mlp(4, 3, hidden=(7, 6))
    assert net.features(X).shape == (5, 6)
    assert [type(layer).__name__ for layer in net.features[:3]] == ["Linear", "BatchNorm1d", "ReLU"]
    assert net.features[0].bias is None
    plain = mlp(4, 3, hidden=np.array([7]), batch_norm=False, activation="tanh", dropout=0.5)
    assert [type(layer).__name__ for layer in plain.features] == ["Linear", "Tanh", "Dropout"]
    assert plain.features[0].bias is not None
    assert mlp(4, 3, hidden=()).features(X) is X


@pytest.mark.parametrize("hidden", [5, "55", (0,), (5.5,), (-1,), None, ("5",)])
def test_layer_sizes_that_cannot_be_meant(hidden):
    with pytest.raises(ValueError, match="hidden is"):
        mlp(4, 3, hidden=hidden)


def test_unknown_names():
    with pytest.raises(ValueError, match=r"no net 'resnet'; there are lenet, linear, mlp"):
        build_net("resnet", 4, 3)
    with pytest.raises(ValueError, match="activation is 'sin'"):
        mlp(4, 3, activation="sin")


@pytest.mark.parametrize(
    "module",
    [
        (nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(6, 3)),
        [nn.Linear(4, 6), nn.Linear(6, 3)],
        Attributes(),
        Last(),
        nn.Linear(4, 3),
        nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)),
        nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(3)),
        mlp(4, 3, hidden=(5,)),
        Last().double(),
    ],
    ids=["pair", "list", "attributes", "last linear", "linear", "sequential", "lazy", "own", "double"],
)
def test_a_users_network_becomes_a_pair(module):
    before = copy.deepcopy(module)
    net = as_net(module, X, n_classes=3)
    dtype = next(net.parameters()).dtype
    x = X.to(dtype)
    with evaluation_mode(net):
        assert torch.equal(quiet(net, x), net.head(net.features(x)))
    assert isinstance(net.head, nn.Linear)
    assert quiet(net, x).shape == (5, 3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1)
    parts, old = (module, before) if isinstance(module, tuple | list) else ([module], [before])
    for part, was in zip(parts, old):  # the copy changed, the original did not
        assert all(
            torch.equal(a, b)
            for a, b in zip(part.parameters(), was.parameters())
            if not isinstance(a, nn.parameter.UninitializedParameter)
        )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Last(nn.Softmax(dim=1)), ["Last", "softmax", "logits"]),
        (Last(nn.LogSoftmax(dim=1)), ["softmax"]),
        (nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1)), ["Sequential", "softmax"]),
        (Cut(), ["Cut", "last nn.Linear", "pair"]),
        (Attention(), ["Attention", "last nn.Linear"]),
        (Last(nn.Linear(3, 2)), ["(5, 2)", "3 classes"]),
        (nn.Linear(7, 3), ["Linear", "(5, 4)", "7x3"]),
        (nn.Sequential(nn.ReLU()), ["no nn.Linear", "pair"]),
        (
            (nn.Unflatten(1, (2, 2)), nn.Sequential(nn.Flatten(), nn.Linear(4, 3))),
            ["(5, 2, 2)", "nn.Flatten()"],
        ),
        ((nn.Linear(4, 6), lambda h: h), ["pair (features, head)", "tuple"]),
        (Last, ["nn.Module", "type"]),
        (3, ["nn.Module", "3"]),
        ((nn.Linear(4, 3),), ["pair"]),
        (Last(Doubled()), ["Last", "tuple", "logits alone"]),
        (nn.Bilinear(4, 4, 3), ["Bilinear cannot take a batch of shape (5, 4)", "missing"]),
    ],
)
def test_networks_that_cannot_be_used_say_why(module, words):
    with pytest.raises(TypeError) as caught:
        as_net(module, X, n_classes=3)
    for word in words:
        assert word in str(caught.value)


def test_evaluation_mode_brings_every_part_back():
    net = mlp(4, 3, hidden=(5,))
    net.features[1].eval()  # a frozen part stays frozen
    with evaluation_mode(net):
        assert not any(part.training for part in net.modules())
    assert net.training
    assert not net.features[1].training


@pytest.mark.parametrize("method", ["rplg", "proden"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: (nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 3)),
        Attributes,
        Last,
        lambda: Last().double(),
    ],
    ids=["pair", "attributes", "last linear", "double"],
)
def test_an_own_network_learns_and_stays_as_it_was(method, make):
    x, y, mask = problem()
    net = seeded(make)
    parts = net if isinstance(net, tuple) else (net,)
    before = copy.deepcopy([part.state_dict() for part in parts])
    model = PartialLabelClassifier(method, net=net, epochs=25, device="cpu").fit(x, mask)
    assert model.score(x, y) > 0.8
    for part, was in zip(parts, before):
        assert part.training
        assert all(torch.equal(value, was[name]) for name, value in part.state_dict().items())
        assert all(parameter.grad is None for parameter in part.parameters())
    again = PartialLabelClassifier(method, net=net, epochs=25, device="cpu").fit(x, mask)
    np.testing.assert_array_equal(model.predict_proba(x), again.predict_proba(x))


@pytest.mark.parametrize("method", ["rplg+", "pop", "proden"])
def test_a_frozen_backbone_stays_as_it_was(method):
    x, _, mask = problem(60)
    backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).requires_grad_(False).eval()
    model = PartialLabelClassifier(method, net=(backbone, nn.Linear(8, 3)), epochs=2, device="cpu")
    model.fit(x, mask)
    for net in model.net_:
        for name, value in backbone.state_dict().items():
            assert torch.equal(net.features.state_dict()[name], value), name


def test_a_class_that_takes_no_sizes_is_said():
    x, _, mask = problem(20)
    for method in ("proden", "auto"):
        with pytest.raises(TypeError, match=r"net\(4, 3\).*\n.*net=MyNetwork\(\)"):
            PartialLabelClassifier(method, net=Attributes, epochs=1, device="cpu").fit(x, mask)


def test_images_with_an_own_network():
    x, y, mask = problem(60)
    images = np.zeros((60, 1, 8, 8), dtype=np.uint8)
    images[:, 0, :2, :2] = (60 * np.clip(x, 0, 4)).astype(np.uint8).reshape(60, 2, 2)
    model = PartialLabelClassifier("rplg", net=seeded(Conv), epochs=15, device="cpu").fit(images / 255, mask)
    assert model.scaling_ is None
    assert model.predict_proba(images / 255).shape == (60, 3)
    assert model.score(images / 255, y) > 0.8
    torch_input = torch.from_numpy(images / 255)
    np.testing.assert_array_equal(model.predict(torch_input), model.predict(images / 255))
    with pytest.raises(TypeError, match="Conv returns shape"):
        PartialLabelClassifier(net=Conv(classes=7), epochs=1, device="cpu").fit(images, mask)
    with pytest.raises(ValueError, match=r"dim 4.*net='mlp'.*lenet"):
        PartialLabelClassifier(epochs=1, device="cpu").fit(images, mask)


def test_images_of_another_kind_than_those_of_fit_are_refused(tmp_path):
    _, _, mask = problem(60)
    images = np.random.default_rng(0).integers(0, 256, size=(60, 3, 8, 8), dtype=np.uint8)

    def fitted(x, **more):
        return PartialLabelClassifier("proden", net="lenet", epochs=1, device="cpu").fit(x, mask, **more)

    model = fitted(list(images))  # a list of arrays is an array of bytes
    p = model.predict_proba(images)
    np.testing.assert_array_equal(fitted(images).predict_proba(images), p)
    np.testing.assert_array_equal(model.predict_proba(images.astype(int)), p)
    model.save(tmp_path)
    for there in (model, load(tmp_path)):
        with pytest.raises(ValueError, match=r"X holds float64, but `fit` got bytes"):
            there.predict(images / 255)
    with pytest.raises(ValueError, match="X holds uint8, but `fit` got other numbers"):
        fitted(images / 255).predict(images)
    with pytest.raises(ValueError, match="X holds float64, but `fit` got bytes"):
        fitted(images, clean=(images[:9] / 255, [0] * 9))
    with pytest.raises(ValueError, match=r"shape \(8, 8\), but the model was fitted on \(3, 8, 8\)"):
        model.predict(images[0])
    with pytest.raises(ValueError, match=r"\(60, 8, 8, 3\), not .*: X.transpose\(0, 3, 1, 2\)"):
        fitted(images.transpose(0, 2, 3, 1))
    with pytest.raises(ValueError, match="there is no net 'resnet50'; there are"):
        PartialLabelClassifier(net="resnet50", epochs=1, device="cpu").fit(images, mask)
    with pytest.raises(ValueError, match=r"X\[:, None\] for grey"):
        fitted(images[:, 0])
    assert "arrays of shape (3, 8, 8), bytes" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_net_is_a_net():
    assert isinstance(as_net((nn.Linear(4, 6), nn.Linear(6, 3))), Net)
