"""Values of public implementations (latent_quantization and tripod for InfoMEC, disentanglement_lib for the rest,
objects-identifiability for SIS; scikit-learn 1.3.2, SIS with 1.9.1), computed with them on the inputs of ``worlds``."""

import numpy as np
import pytest

from isorep import structure

from .worlds import aligned, quantised, rotated

WORLDS = {"aligned": (aligned, 0), "rotated": (rotated, 1), "quantised": (quantised, 2)}
INFOMEC = {
    "aligned": (0.9947182793009045, 0.8786027996739252, 0.9947058519009181),
    "rotated": (0.19254020290836812, 0.9999999063147595, 0.15943617228098217),
    "quantised": (0.9893090163446554, 0.6301511301471527, 0.8252981640556798),
}
NMI = {
    "aligned": [
        [0.8828816451387832, 0.0, 0.009448253270838173, 0.0],
        [0.0, 0.8785299293493248, 0.0, 0.0],
        [0.0, 0.0, 0.8849812148053812, 3.260931971405401e-05],
    ],
    "rotated": [
        [0.24934964068132562, 0.21988867717009647, 0.08720113323114877],
        [0.06301988576555662, 0.19958774492435308, 0.2200734478046317],
        [0.18779065230503714, 0.07763688766300647, 0.18815230931207771],
    ],
    "quantised": [
        [1.0, 0.00016792272487691076, 0.0014013634262408298, 0.0, 0.5781906255007067],
        [0.0011906603510425384, 0.6571954474627658, 0.0027250056793962137, 0.0, 0.0019351214862171537],
        [0.0010519360214542482, 0.0010068732822899461, 0.2270874665509537, 0.0, 0.0019301732864636543],
    ],
}
ACTIVE = {"aligned": [True, True, True, False], "rotated": [True] * 3, "quantised": [True, True, True, False, True]}
DCI = {  # disentanglement, completeness, informativeness on unseen rows
    "aligned": (0.897982194452926, 0.8892649036622297, 0.9153333333333333),
    "rotated": (0.07334963712947012, 0.07370830838020373, 0.9763333333333333),
    "quantised": (0.7249501411116268, 0.8323217424017137, 0.8636666666666667),
}
MIG = {"aligned": 0.8489241831773703, "rotated": 0.01834549567467501, "quantised": 0.433812369849051}
MODULARITY = {"aligned": 0.8914712362311447, "rotated": 0.4740230614721037, "quantised": 0.7999820462869783}
SAP = {  # discrete factors, continuous factors
    "aligned": (0.37366666666666665, 0.9526598082625214),
    "rotated": (0.011333333333333343, 0.03165501841740722),
    "quantised": (0.25500000000000006, 0.41576533860316234),
}
EXPLICITNESS = {
    "aligned": (0.9933663709656554, 0.9939211655595215),
    "rotated": (0.9999973234977727, 0.9999959771892738),
}


def unseen(name):
    make, seed = WORLDS[name]
    return make(1000, seed + 100)


@pytest.mark.parametrize("name", WORLDS)
def test_infomec_is_that_of_both_public_versions(name):
    found = structure.infomec(*WORLDS[name][0]())
    assert np.allclose(found.nmi, NMI[name], rtol=0, atol=1e-6)
    assert found.active.tolist() == ACTIVE[name]
    assert found.infom == pytest.approx(INFOMEC[name][0], abs=1e-6)
    assert found.infoe == pytest.approx(INFOMEC[name][1], abs=1e-3)
    assert found.infoc == pytest.approx(INFOMEC[name][2], abs=1e-6)


@pytest.mark.parametrize("name", WORLDS)
def test_dci_on_bins_is_close_to_disentanglement_lib(name):
    found = structure.dci(*WORLDS[name][0](), test=unseen(name))
    assert (found.disentanglement, found.completeness, found.informativeness) == pytest.approx(DCI[name], abs=1e-2)


def test_dci_by_scikit_learn_s_trees_is_disentanglement_lib_s():
    found = structure.dci(*rotated(), test=unseen("rotated"), importance="trees")
    assert (found.disentanglement, found.completeness, found.informativeness) == pytest.approx(DCI["rotated"], abs=1e-2)


@pytest.mark.parametrize("name", WORLDS)
def test_mig_and_modularity_are_those_of_disentanglement_lib(name):
    s, z = WORLDS[name][0]()
    assert structure.mig(s, z).value == pytest.approx(MIG[name], abs=1e-9)
    assert structure.modularity(s, z).value == pytest.approx(MODULARITY[name], abs=1e-9)


@pytest.mark.parametrize("name", WORLDS)
def test_sap_is_that_of_disentanglement_lib(name):
    s, z = WORLDS[name][0]()
    assert structure.sap(s, z, test=unseen(name)).value == pytest.approx(SAP[name][0], abs=1e-9)
    continuous = structure.sap(s, z, test=unseen(name), discrete_factors=False)
    assert continuous.value == pytest.approx(SAP[name][1], abs=1e-9)


@pytest.mark.parametrize("name", EXPLICITNESS)
def test_explicitness_is_that_of_disentanglement_lib(name):
    found = structure.explicitness(*WORLDS[name][0](), test=unseen(name))
    assert (found.train, found.value) == pytest.approx(EXPLICITNESS[name], abs=1e-4)


def test_slot_identifiability_is_that_of_the_published_code():
    rng = np.random.RandomState(0)
    z = rng.randn(1000, 3, 3)
    turn = np.array([[2, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    found = structure.slot_identifiability(z, np.tanh(0.5 * z @ turn.T)[:, [2, 0, 1]])
    expected = [
        [-0.04543257363085185, 0.9806773910965144, -0.060037256315270904],
        [-0.0488225883214309, -0.049241096150937004, 0.9853785182614789],
        [0.96755890511945, -0.04994335498574517, -0.04595992952771325],
    ]
    assert np.allclose(found.r2, expected, rtol=0, atol=1e-9)
    assert found.matches == (1, 2, 0)
    assert found.value == pytest.approx(0.9778716048258144, abs=1e-9)


def test_slot_identifiability_of_mixed_slots_is_that_of_the_published_code():
    rng = np.random.RandomState(1)
    z = rng.randn(1000, 3, 3)
    mixed = z.reshape(1000, 9) @ rng.randn(9, 9).T
    found = structure.slot_identifiability(z.reshape(1000, 9), mixed, slots=3)
    assert found.matches == (2, 0, 1)
    assert found.on == pytest.approx([0.6763620994547512, 0.3213450798440892, 0.3538589908104835], abs=1e-9)
    assert found.off == pytest.approx([0.38825835718174995, 0.20011415056290238, 0.25065403274886566], abs=1e-9)
    assert found.value == pytest.approx(0.17084654320526868, abs=1e-9)
