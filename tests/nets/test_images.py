"""Networks for images: sizes as published, shapes, seeds, and models saved with them."""

import numpy as np
import pytest
import torch
from torch import nn

import oneof
from oneof import PartialLabelClassifier
from oneof.nets import IMAGE_NETS, Net, as_net, build_net, wide_resnet
from oneof.nets.images import PreActBlock

# from the layers' definitions in the published code
SIZES = [
    ("wrn-28-2", (3, 32, 32), 10, 1_467_610),
    ("wrn-28-2", (3, 32, 32), 100, 1_479_220),
    ("lenet", (1, 28, 28), 10, 1_257_220),
    ("resnet32", (3, 32, 32), 10, 466_906),
    ("resnet32", (3, 32, 32), 100, 472_756),
    ("resnet18", (3, 32, 32), 10, 11_173_962),
    ("resnet18", (3, 64, 64), 200, 11_271_432),
    ("resnet34", (3, 32, 32), 10, 21_282_122),
    ("resnet34", (3, 32, 32), 100, 21_328_292),
    ("preact18", (3, 64, 64), 200, 11_268_744),
]
FEATURES = {
    "lenet": 500, "resnet32": 64, "resnet18": 512, "resnet34": 512, "preact18": 512, "wrn-28-2": 128,
}  # fmt: skip
SMALL = ("lenet", "resnet32", "wrn-28-2")


def seeded_net(name, shape=(3, 32, 32), classes=10, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_net(name, shape, classes)


@pytest.mark.parametrize(("name", "shape", "classes", "parameters"), SIZES)
def test_nets_have_as_many_parameters_as_published(name, shape, classes, parameters):
    with torch.device("meta"):
        net = build_net(name, shape, classes)
    assert sum(p.numel() for p in net.parameters()) == parameters


@pytest.mark.parametrize("name", IMAGE_NETS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_features_are_vectors_and_the_head_is_linear(name, shape):
    with torch.device("meta"):  # shapes need no numbers
        net, x = build_net(name, shape, 7), torch.zeros(2, *shape)
        features = net.features(x)
        assert features.shape == (2, FEATURES[name])
        assert net(x).shape == (2, 7)
    assert isinstance(net.head, nn.Linear)
    assert isinstance(net, Net)


@pytest.mark.parametrize("name", SMALL)
def test_a_pass_is_head_after_features_and_trains_everything(name):
    net = seeded_net(name, (3, 16, 16))
    x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    logits = net(x)
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    net.eval()
    with torch.no_grad():
        assert torch.equal(net(x), net.head(net.features(x)))
        torch.testing.assert_close(net(x)[:1], net(x[:1]))  # in evaluation rows do not see each other


def test_the_mean_over_the_map_takes_any_size():
    net = seeded_net("resnet32").eval()
    with torch.no_grad():
        for size in (8, 28, 32, 64):
            assert net(torch.zeros(1, 3, size, size)).shape == (1, 10)


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_the_weights(name):
    one, same, other = (seeded_net(name, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_convolutions_start_by_kaimings_rule_and_biases_at_zero():
    net = seeded_net("resnet18")
    for part in net.modules():
        if isinstance(part, nn.Conv2d):
            expected = (2 / (part.out_channels * part.kernel_size[0] ** 2)) ** 0.5
            assert part.weight.std().item() == pytest.approx(expected, rel=0.1)
            assert part.bias is None
    assert net.head.bias.eq(0).all()


def test_a_wide_resnet_normalises_before_the_shortcut():
    """Where widths differ, both branches see the normalised input; else the skip is the input itself."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 6, 6)
    same, changing = PreActBlock(4, 4, 1).eval(), PreActBlock(4, 8, 2).eval()
    assert same.shortcut is None
    with torch.no_grad():
        nn.init.zeros_(same.conv2.weight)
        assert torch.equal(same(x), x)
        nn.init.zeros_(changing.conv2.weight)
        assert changing.shortcut is not None
        torch.testing.assert_close(changing(x), changing.shortcut(changing.bn1(x).relu()))


def test_input_is_not_changed_in_place():
    x = torch.randn(2, 3, 16, 16)
    for name in SMALL:
        before = x.clone()
        seeded_net(name, (3, 16, 16))(x)
        assert torch.equal(x, before), name


# ---- wrong inputs -----------------------------------------------------------------------------


def test_wrong_names_and_inputs_are_named():
    with pytest.raises(ValueError, match=r"there is no net 'resnet1'; there are .*resnet18"):
        build_net("resnet1", (3, 32, 32), 10)
    with pytest.raises(ValueError, match=r"resnet18 is a net for images .* an input has 64 features"):
        build_net("resnet18", 64, 10)
    with pytest.raises(ValueError, match=r"shape \(28, 28\)"):
        build_net("lenet", (28, 28), 10)
    with pytest.raises(ValueError, match="depth is 27; a wide ResNet has 6n"):
        wide_resnet((3, 32, 32), 10, depth=27)


def test_images_of_other_channels_are_refused():
    with pytest.raises(TypeError, match=r"cannot take a batch of shape \(2, 1, 32, 32\)"):
        as_net(seeded_net("resnet32"), torch.zeros(2, 1, 32, 32))


@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_nets_for_tables_see_an_image_as_a_long_row(name):
    net = build_net(name, (3, 8, 8), 5)
    assert net(torch.zeros(2, 3, 8, 8)).shape == (2, 5)


# ---- saved models -----------------------------------------------------------------------------


def test_weights_survive_the_round_trip():
    net, other = seeded_net("wrn-28-2"), seeded_net("wrn-28-2", seed=1)
    other.load_state_dict(net.state_dict())
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(net.eval()(x), other.eval()(x))


def test_a_model_on_images_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=40)
    x = (rng.normal(size=(40, 1, 8, 8)) + y[:, None, None, None]).astype(np.float32)
    mask = np.eye(3, dtype=bool)[y] | (rng.random((40, 3)) < 0.3)
    net = seeded_net("lenet", (1, 8, 8), 3)
    model = PartialLabelClassifier("proden", net=net, epochs=2, device="cpu").fit(x, mask)
    model.save(tmp_path / "model")
    back = oneof.load(tmp_path / "model", net=seeded_net("lenet", (1, 8, 8), 3, seed=5))
    np.testing.assert_array_equal(back.predict_proba(x), model.predict_proba(x))
