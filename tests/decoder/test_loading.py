"""Models from files and code: what is loaded, and what is refused before anything in it runs."""

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import isorep  # noqa: E402
from isorep.decoder import jacobian  # noqa: E402
from isorep.decoder.load import load_decoder  # noqa: E402

from .networks import Images, mlp  # noqa: E402

Z = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same decoder, in every kind of file."""
    folder = tmp_path_factory.mktemp("models")
    decoder, latents = Images().eval(), torch.as_tensor(Z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(decoder), folder / "script.pt")
        torch.jit.save(torch.jit.trace(decoder, latents), folder / "trace.pt")
        for name, rows, sizes in (
            ("any", 3, ({0: torch.export.Dim("n")},)),
            ("some", 3, ({0: torch.export.Dim("n", min=3, max=4)},)),
            ("one", 1, None),
            ("three", 3, None),
        ):
            program = torch.export.export(decoder, (latents[:rows],), dynamic_shapes=sizes)
            torch.export.save(program, folder / f"{name}.pt2")
    return folder


@pytest.mark.parametrize("name", ["script.pt", "trace.pt", "any.pt2", "some.pt2", "one.pt2", "three.pt2"])
def test_script_and_programs_of_any_batch_size_come_back_with_the_same_jacobian(models, name):
    wanted = jacobian(Images(), Z)
    np.testing.assert_allclose(jacobian(load_decoder(models / name), Z), wanted, atol=1e-6)


def changed(source, target, change):
    """A copy of an archive with some members changed, dropped or added by ``change(dict)``."""
    with zipfile.ZipFile(source) as archive:
        members = {entry.filename.partition("/")[2]: archive.read(entry) for entry in archive.infolist()}
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"model/{name}", content)
    return target


def pickled(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def edited(member, change):
    def apply(members):
        data = json.loads(members[member])
        change(data)
        members[member] = json.dumps(data).encode()

    return apply


def first_weight(config):
    return next(iter(config["config"].values()))


WEIGHTS, MODEL, CONSTANTS = (
    "data/weights/model_weights_config.json",
    "models/model.json",
    "data/constants/model_constants_config.json",
)


@pytest.mark.parametrize(
    "attack",
    ["sample inputs", "pickled weight", "legacy weights", "opaque constant", "library", "old format"],
)
def test_nothing_in_a_program_is_unpickled(models, tmp_path, attack):
    canary = tmp_path / "canary"
    bad = pickled((Canary(canary),))

    def change(members):
        if attack == "sample inputs":
            members["data/sample_inputs/model.pt"] = bad
        elif attack == "pickled weight":
            edited(WEIGHTS, lambda config: first_weight(config).update(use_pickle=True))(members)
            members["data/weights/weight_0"] = bad
        elif attack == "legacy weights":
            members["data/weights/model.pt"] = bad
        elif attack == "opaque constant":
            members["data/constants/opaque_obj_0"] = pickle.dumps(Canary(canary))
            entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
            edited(CONSTANTS, lambda config: config["config"].update(x=entry))(members)
        elif attack == "library":
            members["data/aotinductor/model/a.so"] = b"\x7fELF"
        else:
            members.clear()
            members.update(
                {"version": b"8.1", "serialized_exported_program.json": b"{}", "serialized_state_dict.pt": bad}
            )

    with pytest.raises(isorep.InputError):
        load_decoder(changed(models / "any.pt2", tmp_path / "bad.pt2", change))
    assert not canary.exists()


CALL = "__import__('pathlib').Path('{}').touch()"


@pytest.mark.parametrize("attack", ["guard", "expression", "operator", "input name", "weight name", "enum"])
def test_nothing_in_a_program_is_evaluated(models, tmp_path, attack):
    canary = tmp_path / "canary"
    code = CALL.format(canary)

    def change(data):
        graph = data["graph_module"]["graph"]
        if attack == "guard":
            data["guards_code"] = [f"{code} is None"]
        elif attack == "expression":
            text = json.dumps(data).replace("Symbol('s", f"Symbol(str({code}) + 's")
            data.update(json.loads(text))
        elif attack == "operator":
            graph["nodes"][0]["target"] = "torch.hub.load"
        elif attack == "input name":
            data.update(json.loads(json.dumps(data).replace('"z"', json.dumps(f"z={code}"))))
        elif attack == "weight name":
            data.update(json.loads(json.dumps(data).replace("up.weight", f"up') or {code} or ('")))
        else:
            signature = data["graph_module"]["module_call_graph"][0]["signature"]
            enum = json.dumps({"__enum__": True, "fqn": "this:X", "name": "x"})
            signature["in_spec"] = signature["in_spec"].replace('"null"', json.dumps(enum), 1)

    path = changed(models / "any.pt2", tmp_path / "bad.pt2", edited(MODEL, change))
    if attack == "guard":  # dropped, not needed
        np.testing.assert_allclose(jacobian(load_decoder(path), Z), jacobian(Images(), Z), atol=1e-6)
    else:
        with pytest.raises(isorep.InputError):
            load_decoder(path)
    assert not canary.exists()


CALLS = {
    "plain": "x = torch.save(z, {})",
    "file as tensor": "x = torch.from_file({}, True, 9)",
    "class": "x = __torch__.torch.classes.a.B(z)",
    "alias": "a = torch.save\n    x = a(z, {})",
    "alias of the module": "a = torch\n    x = a.save(z, {})",
    "alias of all operators": "a = ops\n    x = a.aten.save(z, {})",
    "parentheses": "x = (torch.save)(z, {})",
    "comment": "x = (torch.save # \n (z, {}))",
    "continued line": "x = torch.save\\\n(z, {})",
    "by name": 'x = getattr(torch, "save")(z, {})',
    "by escaped name": 'x = getattr(torch, "sa\\166e")(z, {})',
    "by name in other quotes": "x = getattr(torch, 'save')(z, {})",
    "behind three quotes": 'b = """\n    " """\n    x = torch.save(z, {}) # "',
    "another library": "x = ops.debugprims.load_tensor({}, [3], [1])",
    "memory of others": "x = ops.inductor._reinterpret_tensor(z, [1000000000], [1], 0)",
    "terminal": 'print("verdict: forged")',
    "terminal, by operator": 'ops.prim.Print("verdict: forged")',
    "self replaced": "self = torch\n    x = self.save(z, {})",
}


@pytest.mark.parametrize("call", CALLS)
def test_script_that_touches_files_is_refused(models, tmp_path, call):
    """Operators are refused by name: a call may be written in many ways."""
    canary = tmp_path / "canary"

    def change(members):
        code = next(name for name in members if name.startswith("code/") and b"def forward(self" in members[name])
        start = members[code].index(b"Tensor:\n", members[code].index(b"def forward(self")) + len(b"Tensor:\n")
        line = CALLS[call].format(f'"{canary}"')
        members[code] = members[code][:start] + f"    {line}\n".encode() + members[code][start:]

    with pytest.raises(isorep.InputError, match="neither files nor classes"):
        load_decoder(changed(models / "script.pt", tmp_path / "bad.pt", change))
    assert not canary.exists()


class Named(torch.nn.Module):
    """A decoder whose parts and texts have the names of refused operators."""

    def __init__(self):
        super().__init__()
        self.save, self.classes = torch.nn.Linear(6, 4), torch.nn.Linear(4, 4)
        self.ops = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Tanh()])
        self.sparse = torch.nn.Embedding(2, 4)  # its class lies in torch.nn.modules.sparse

    def forward(self, rows):
        classes = self.classes(self.save(rows))
        for layer in self.ops:
            classes = layer(classes)
        assert classes.dim() == 2, 'it\'s no "print" \\ # of torch.save(é)'
        return classes + self.sparse(torch.zeros(1, dtype=torch.int64))


@pytest.mark.parametrize("kind", ["script", "trace"])
def test_parts_and_texts_of_a_script_may_have_any_name(tmp_path, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoder, latents = Named().eval(), torch.as_tensor(Z)
        made = torch.jit.script(decoder) if kind == "script" else torch.jit.trace(decoder, latents)
        torch.jit.save(made, tmp_path / "named.pt")
    np.testing.assert_allclose(jacobian(load_decoder(tmp_path / "named.pt"), Z), jacobian(decoder, Z), atol=1e-6)


def test_pickles_are_refused_without_being_opened(tmp_path):
    canary = tmp_path / "canary"
    torch.save(Canary(canary), tmp_path / "whole.pt")
    torch.save(mlp().state_dict(), tmp_path / "state.pt")
    (tmp_path / "bare.pkl").write_bytes(pickle.dumps(Canary(canary)))
    torch.save(Canary(canary), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("whole.pt", "state.pt", "bare.pkl", "old.pt"):
        with pytest.raises(isorep.InputError, match="nothing is unpickled: export the decoder with"):
            load_decoder(tmp_path / name)
    assert not canary.exists()


def test_damaged_and_foreign_files_are_refused(models, tmp_path):
    whole = (models / "any.pt2").read_bytes()
    for name, content in {
        "empty.pt2": b"",
        "half.pt2": whole[: len(whole) // 2],
        "noise.pt": np.random.default_rng(0).bytes(5000),
        "text.pt": b"hello",
        "flipped.pt2": whole.replace(b"torch.ops.aten", b"torch.ops.nope"),
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(isorep.InputError):
            load_decoder(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/code/a.py", bytes(2**26 + 1))
        archive.writestr("m/constants.pkl", b"", zipfile.ZIP_STORED)
    with zipfile.ZipFile(tmp_path / "packed.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", b"{}")
    for name, words in (("bomb.pt", "more code"), ("packed.pt2", "compressed")):
        with pytest.raises(isorep.InputError, match=words):
            load_decoder(tmp_path / name)
    with pytest.raises(isorep.InputError, match="is not a file"):
        load_decoder(tmp_path)


def test_a_script_whose_packed_code_is_damaged_is_refused(models, tmp_path):
    damaged = bytearray((models / "script.pt").read_bytes())
    with zipfile.ZipFile(models / "script.pt") as archive:
        member = next(each for each in archive.infolist() if each.filename.endswith(".py"))
    assert member.compress_type == zipfile.ZIP_DEFLATED
    start = damaged.index(member.filename.encode()) + len(member.filename)
    length = int.from_bytes(damaged[member.header_offset + 28 : member.header_offset + 30], "little")
    damaged[start + length] = 0xFF  # no kind of block
    (tmp_path / "damaged.pt").write_bytes(damaged)
    with pytest.raises(isorep.InputError, match="it is damaged"):
        load_decoder(tmp_path / "damaged.pt")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_decoder(tmp_path / "nothing.pt2")


def test_programs_with_two_inputs_are_refused(tmp_path):
    class Sum(torch.nn.Module):
        def forward(self, a, b):
            return a + b

    torch.export.save(torch.export.export(Sum(), (torch.zeros(2, 3), torch.zeros(2, 3))), tmp_path / "two.pt2")
    with pytest.raises(isorep.InputError, match="2 inputs"):
        load_decoder(tmp_path / "two.pt2")


CODE = """
import torch

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(3, 4)

    def forward(self, z):
        return self.up(z)

ready = Decoder()

def make(width=3):
    return Decoder()

def double(z):
    return 2 * z

class Needs:
    def __init__(self, something):
        pass

number = 3

def breaks():
    raise RuntimeError("no such size\\nat all")

def leaves():
    raise SystemExit(0)
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"codes_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CODE)
    (tmp_path / f"{name}_broken.py").write_text("1 / 0")
    (tmp_path / f"{name}_leaves.py").write_text("raise SystemExit(0)")
    return name


def test_code_is_a_module_a_function_a_class_or_a_factory(code, tmp_path):
    from safetensors.torch import save_file

    for name in ("Decoder", "ready", "make"):
        assert jacobian(load_decoder(f"{code}:{name}"), np.zeros((1, 3))).shape == (1, 4, 3)
    assert jacobian(load_decoder(f"{code}:double"), np.ones((1, 3)))[0, 0, 0] == 2
    weights = {"up.weight": torch.ones(4, 3), "up.bias": torch.zeros(4)}
    save_file(weights, tmp_path / "w.safetensors")
    found = load_decoder(f"{code}:make", weights=tmp_path / "w.safetensors")
    assert np.array_equal(jacobian(found, np.zeros((1, 3)))[0], np.ones((4, 3)))


def test_code_that_cannot_be_used_is_refused(code, tmp_path, models):
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    torch.save({}, tmp_path / "w.pt")
    for source, options, words in (
        ("no_such_module_here:x", {}, "there is no module"),
        (f"{code}:missing", {}, "has no 'missing'"),
        (f"{code}_broken:x", {}, "ZeroDivisionError"),
        (f"{code}_leaves:x", {}, "cannot be imported: SystemExit"),
        (f"{code}:breaks", {}, "fails: RuntimeError: no such size$"),
        (f"{code}:leaves", {}, "fails: SystemExit: 0"),
        (f"{code}:Needs", {}, "without arguments"),
        (f"{code}:number", {}, "is of type int"),
        (f"{code}:make", {"weights": tmp_path / "w.safetensors"}, "damaged"),
        (f"{code}:make", {"weights": tmp_path / "w.pt"}, "not a safetensors file"),
        (f"{code}:make", {"weights": tmp_path / "none.safetensors"}, "does not exist"),
        (f"{code}:double", {"weights": tmp_path / "w.safetensors"}, "not a torch module"),
        (models / "any.pt2", {"weights": tmp_path / "w.safetensors"}, "come from code"),
        (tmp_path / "w.safetensors", {}, "without a model"),
        (tmp_path / f"{code}.py", {}, "is code"),
    ):
        with pytest.raises(isorep.InputError, match=words):
            load_decoder(source, **options)
