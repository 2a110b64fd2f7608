"""The modules and the network of the lecture on backpropagation, as one would write them in Python from its slides:
`backward(a, b, g_b)` with the inputs first, and a network that is a module made of modules.
"""

import numpy as np
import pytest

from chainrule.tape.check import check_gradients
from chainrule.tape.optimizers import SGD
from chainrule.tape.tape import Module, Parameter, Tape


class Logistic(Module):
    def forward(self, a):
        return 1 / (1 + np.exp(-a))

    def backward(self, a, b, g_b):
        return g_b * b * (1 - b)


class Normalise(Module):
    """softmax"""

    def forward(self, a):
        return np.exp(a) / np.exp(a).sum()

    def backward(self, a, b, g_b):
        return g_b @ (np.diag(b) - np.outer(b, b))


class Affine(Module):
    """The lecture gives the weights' gradient first; here they are in the order of forward's inputs."""

    def forward(self, a, omega):
        return omega @ a

    def backward(self, a, omega, b, g_b):
        return omega.T @ g_b, np.outer(g_b, a)


class Entropy(Module):
    """One gradient for two inputs: that of the prediction, as gold needs none."""

    def forward(self, a, a_hat):
        return -a @ np.log(a_hat)

    def backward(self, a, a_hat, b, g_b):
        return -g_b * (a / a_hat)


class NeuralNetwork(Module):
    def __init__(self, alpha, beta):
        self.lin1_layer, self.sig_layer, self.lin2_layer = Affine(), Logistic(), Affine()
        self.soft_layer, self.ce_layer = Normalise(), Entropy()
        self.alpha, self.beta = alpha, beta

    def forward(self, x, y):
        a = self.lin1_layer(x, self.alpha)
        z = self.sig_layer(a)
        b = self.lin2_layer(z, self.beta)
        y_hat = self.soft_layer(b)
        return self.ce_layer(y, y_hat)


def by_hand(x, y, alpha, beta):
    z = 1 / (1 + np.exp(-alpha @ x))
    y_hat = np.exp(beta @ z) / np.exp(beta @ z).sum()
    g_b = y_hat - y
    return -np.log(y_hat @ y), np.outer(beta.T @ g_b * z * (1 - z), x), np.outer(g_b, z)


@pytest.fixture
def given():
    generator = np.random.default_rng(0)
    return generator.normal(size=3), np.eye(4)[2], generator.normal(size=(5, 3)), generator.normal(size=(4, 5))


def test_the_lectures_network_is_a_module_made_of_modules(given):
    x, y, alpha, beta = given
    network = NeuralNetwork(Parameter(alpha), Parameter(beta))
    tape = Tape()
    J = network(tape.value(x), tape.value(y))
    tape.backward(J)
    loss, g_alpha, g_beta = by_hand(*given)
    np.testing.assert_allclose(J.array, loss, rtol=1e-12)
    np.testing.assert_allclose(network.alpha.gradient, g_alpha, rtol=1e-10)
    np.testing.assert_allclose(network.beta.gradient, g_beta, rtol=1e-10)


def test_a_step_of_sgd_on_all_parameters_of_a_network(given):
    x, y, alpha, beta = given
    network = NeuralNetwork(Parameter(alpha.copy()), Parameter(beta.copy()))
    assert network.parameters() == [network.alpha, network.beta]
    network(x, y).backward()
    SGD(network.parameters(), 0.1).step()
    _, g_alpha, g_beta = by_hand(*given)
    np.testing.assert_allclose(network.alpha.array, alpha - 0.1 * g_alpha, rtol=1e-10)
    np.testing.assert_allclose(network.beta.array, beta - 0.1 * g_beta, rtol=1e-10)


class Deep(Module):
    """Modules in lists and dictionaries, one of them twice: its parameters are counted once."""

    def __init__(self, network):
        self.parts, self.again, self.bias = [network, Logistic()], {"same": network}, Parameter(1.0)

    def forward(self, x, y):
        return self.parts[1](self.parts[0](x, y)) * self.bias


def test_networks_hold_networks(given):
    x, y, alpha, beta = given
    deep = Deep(NeuralNetwork(Parameter(alpha), Parameter(beta)))
    assert deep.parameters() == [deep.parts[0].alpha, deep.parts[0].beta, deep.bias]
    deep(x, y).backward()
    J, g_alpha, _ = by_hand(*given)
    opened = 1 / (1 + np.exp(-J))
    np.testing.assert_allclose(deep.bias.gradient, opened)
    np.testing.assert_allclose(deep.parts[0].alpha.gradient, opened * (1 - opened) * g_alpha, rtol=1e-10)


@pytest.mark.parametrize("module", [Logistic(), Normalise(), Affine()])
def test_finite_differences_confirm_the_lectures_modules(module):
    a, omega = np.array([0.5, -1.0, 2.0]), np.arange(6.0).reshape(2, 3) / 3
    check_gradients(module, *([a, omega] if isinstance(module, Affine) else [a]))


def test_the_lectures_linear_gives_its_gradients_in_the_other_order_and_is_told_so(given):
    class Linear(Affine):
        def backward(self, a, omega, b, g_b):
            return np.outer(g_b, a), omega.T @ g_b

    x, _, alpha, _ = given
    y = Linear()(x, Parameter(alpha))
    with pytest.raises(
        ValueError, match=r"Linear.backward gives a gradient of shape \(3,\) for input 1 of shape \(5, 3\)"
    ):
        y.backward()


def test_one_gradient_for_two_inputs_that_need_one_is_refused(given):
    gold, predicted = Parameter([1.0, 0.0]), Parameter([0.5, 0.5])
    with pytest.raises(ValueError, match=r"Entropy.backward must give 2 gradients, one per input .* got 1"):
        Entropy()(gold, predicted).backward()


def test_the_lectures_backward_of_a_network_is_refused_with_the_way_to_write_it():
    with pytest.raises(
        TypeError, match=r"got \(x, y, alpha, beta\); a module that applies other modules needs no back"
    ):

        class Network(Module):
            def forward(self, x, y, alpha, beta):
                return Entropy()(y, Normalise()(Affine()(Logistic()(Affine()(x, alpha)), beta)))

            def backward(self, x, y, alpha, beta):
                return alpha.gradient, beta.gradient


@pytest.mark.parametrize(
    "names", ["g, out, a", "output, gradient, a", "b, a, g_b", "a, g_b", "a, b, g_b, more", "*all"]
)
def test_any_other_order_of_arguments_is_refused(names):
    with pytest.raises(
        TypeError, match=r"Odd.backward must take \(gradient, output, a\) or \(a, its output, its gradient\)"
    ):
        exec(f"class Odd(Logistic):\n    def backward(self, {names}): return (None,)", {"Logistic": Logistic})
