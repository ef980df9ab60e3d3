"""Files: what is saved comes back bit for bit, and nothing that is wrong with a file gets past the reader."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flexdome as fd
from flexdome.cmdp.archive import read_archive, write_archive
from strategies import cmdps

S, A, H = 3, 2, 4
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example rewrites its file


def example(**options: Any) -> fd.CMDP:
    """A sparse CMDP in the cost form with a law: every part of the format is in its file."""
    rng = np.random.default_rng(6)
    law = fd.Threshold.normal(2.0, 0.3, per="step", clip=(0.0, 4.0))
    return fd.CMDP.from_costs(
        rng.dirichlet(np.ones(S), size=(H, S, A)),
        rng.random((H, S, A)),
        rng.random((1, H, S, A)),
        law,
        1,
        next_states=rng.integers(0, S, size=(H, S, A, S)),
        **{"name": "pump", "noise": "bernoulli", **options},
    )


def dense(horizon: int = 4, stationary: bool = True) -> fd.CMDP:
    rng = np.random.default_rng(7)
    step = () if stationary else (horizon,)
    p, r = rng.dirichlet(np.ones(S), size=(*step, S, A)), rng.random((*step, S, A))
    return fd.CMDP(p, r, rng.random((2, *step, S, A)), [0.5, 1.0], 0, horizon=horizon)


def contents(cmdp: fd.CMDP) -> dict[str, Any]:
    """Everything that a CMDP says, arrays as types, shapes and bytes."""
    arrays = {**cmdp.model._asdict(), "alpha": cmdp.alpha, "costs": cmdp.costs}
    plain = {"thresholds": cmdp.thresholds, "limits": cmdp.limits, "name": cmdp.name, "noise": cmdp.noise}
    flags = {"stationary": cmdp.stationary, "cost form": cmdp.is_cost_form, "sparse": cmdp.is_sparse}
    return {**plain, **flags, **{k: (v.dtype, v.shape, v.tobytes()) for k, v in arrays.items()}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.cmdp"


@pytest.fixture
def saved(path: Path) -> Path:
    fd.save_cmdp(example(), path)
    return path


def refusal(path: Path) -> str:
    """The message with which loading fails."""
    with pytest.raises(fd.FileFormatError) as caught:
        fd.load_cmdp(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


# -- the round trip -------------------------------------------------------------------------------------


@SHARED
@given(cmdp=st.one_of(cmdps(laws=True), cmdps(costs=True, laws=True)))
def test_a_saved_cmdp_loads_bit_for_bit(path: Path, cmdp: fd.CMDP) -> None:
    fd.save_cmdp(cmdp, path)
    assert contents(fd.load_cmdp(path)) == contents(cmdp)


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("stationary", [True, False])
def test_a_loaded_cmdp_is_stationary_when_the_saved_one_was(path: Path, horizon: int, stationary: bool) -> None:
    fd.save_cmdp(dense(horizon, stationary), path)
    assert fd.load_cmdp(path).stationary is stationary


@pytest.mark.parametrize("name", ["", "Pumpe № 3 ✓", 'quote " and \\ and \n', "\ud800", "x" * 10_000], ids=ascii)
def test_any_name_comes_back(path: Path, name: str) -> None:
    fd.save_cmdp(example(name=name), path)
    assert fd.load_cmdp(path).name == name


def test_transitions_that_came_in_single_precision_load_bit_for_bit(path: Path) -> None:
    p = np.random.default_rng(8).dirichlet(np.ones(S), size=(S, A)).astype(np.float32)
    cmdp = fd.CMDP(p, np.ones((S, A)), np.ones((1, S, A)), 1.0, 0, horizon=2)
    fd.save_cmdp(cmdp, path)
    assert contents(fd.load_cmdp(path)) == contents(cmdp)


def test_a_loaded_cmdp_is_read_only(saved: Path) -> None:
    with pytest.raises(ValueError, match="WRITEABLE"):
        fd.load_cmdp(saved).model.f.flags.writeable = True


def test_the_same_cmdp_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    fd.save_cmdp(fd.load_cmdp(saved), tmp_path / "again.cmdp")
    assert (tmp_path / "again.cmdp").read_bytes() == saved.read_bytes()


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    fd.save_cmdp(example(), str(tmp_path / "some.cmdp"))
    assert fd.load_cmdp(str(tmp_path / "some.cmdp")).name == "pump"


def test_numpy_reads_the_arrays_without_pickle(saved: Path) -> None:
    with np.load(saved, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["rewards"], example().rewards)


# -- writing --------------------------------------------------------------------------------------------


def test_saving_leaves_no_other_file(saved: Path) -> None:
    assert os.listdir(saved.parent) == [saved.name]


def test_a_saved_file_has_the_permissions_of_any_new_file(saved: Path) -> None:
    other = saved.parent / "other"
    other.touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_saving_through_a_link_replaces_what_it_points_to(saved: Path) -> None:
    link = saved.parent / "link"
    link.symlink_to(saved)
    fd.save_cmdp(dense(), link)
    assert link.is_symlink()
    assert contents(fd.load_cmdp(saved)) == contents(dense())


@pytest.mark.parametrize("stop", [OSError("disk full"), KeyboardInterrupt(), MemoryError()], ids=repr)
@pytest.mark.parametrize("where", ["numpy.lib.format.write_array", "zipfile.ZipFile.close", "os.fsync", "os.replace"])
def test_an_interrupted_save_leaves_the_previous_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, where: str, stop: BaseException
) -> None:
    before = saved.read_bytes()

    def interrupted(*args: Any, **options: Any) -> None:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(where, interrupted)
        expected = fd.FlexDOMEError if isinstance(stop, OSError) else type(stop)
        with pytest.raises(expected):
            fd.save_cmdp(dense(), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("members", range(5))
def test_a_save_interrupted_between_arrays_leaves_the_previous_file(
    saved: Path, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    before = saved.read_bytes()
    write, written = np.lib.format.write_array, []

    def interrupted(stream: Any, array: Any, **options: Any) -> None:
        if len(written) == members:
            stream.write(b"half an ar")
            raise KeyboardInterrupt
        written.append(array)
        write(stream, array, **options)

    with monkeypatch.context() as patch:
        patch.setattr("numpy.lib.format.write_array", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fd.save_cmdp(dense(), saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_directory_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fd.FlexDOMEError, match=r"missing/some.cmdp cannot be written: No such file or directory"):
        fd.save_cmdp(example(), tmp_path / "missing" / "some.cmdp")


def test_a_file_in_place_of_a_directory_is_refused(saved: Path) -> None:
    with pytest.raises(fd.FlexDOMEError, match="cannot be written: Not a directory"):
        fd.save_cmdp(example(), saved / "some.cmdp")


def test_a_directory_in_place_of_a_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "some.cmdp").mkdir()
    with pytest.raises(fd.FlexDOMEError, match="cannot be written: Is a directory"):
        fd.save_cmdp(example(), tmp_path / "some.cmdp")
    assert os.listdir(tmp_path) == ["some.cmdp"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(fd.FlexDOMEError, match="cannot be written: Permission denied"):
        fd.save_cmdp(example(), tmp_path / "some.cmdp")


@pytest.mark.parametrize("bad", [None, 3, b"bytes", "", "nul\0", ["list"]], ids=repr)
def test_a_path_that_is_none_is_refused(bad: Any) -> None:
    for use in (fd.load_cmdp, lambda path: fd.save_cmdp(example(), path)):
        with pytest.raises(fd.ValidationError, match=r"path is .*; it must be the path of a file"):
            use(bad)


def test_only_a_cmdp_is_saved(path: Path) -> None:
    with pytest.raises(fd.ValidationError, match="cmdp is 3; it must be a CMDP"):
        fd.save_cmdp(3, path)  # type: ignore[arg-type]
    assert not path.exists()


# -- damage ---------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_is_refused(path: Path) -> None:
    assert "does not exist" in refusal(path)


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    assert "File name too long" in refusal(tmp_path / ("x" * 300))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "is not a regular file" in refusal(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_is_refused_instead_of_waited_for(path: Path) -> None:
    os.mkfifo(path)
    assert "is not a regular file" in refusal(path)


def test_an_empty_file_is_refused(path: Path) -> None:
    path.touch()
    assert "is damaged or not a flexdome file" in refusal(path)


def test_a_file_truncated_anywhere_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for length in (*range(0, len(data), 13), *range(len(data) - 200, len(data))):
        saved.write_bytes(data[:length])
        refusal(saved)


def test_a_file_without_its_beginning_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    for start in range(1, len(data), 29):
        saved.write_bytes(data[start:])
        refusal(saved)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF], ids=hex)
def test_a_changed_byte_is_refused_or_does_not_matter(saved: Path, flip: int) -> None:
    """Some bytes of a zip, such as times, say nothing about the arrays."""
    data, whole = saved.read_bytes(), contents(example())
    refused = 0
    for position in range(0, len(data), 7):
        saved.write_bytes(data[:position] + bytes([data[position] ^ flip]) + data[position + 1 :])
        try:
            assert contents(fd.load_cmdp(saved)) == whole
        except fd.FileFormatError:
            refused += 1
    assert refused > 0.8 * len(data) / 7


@SHARED
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda tail: b"PK\x03\x04" + tail)))
def test_arbitrary_bytes_are_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    refusal(path)


@settings(SHARED, max_examples=300)
@given(data=st.data())
def test_a_file_with_any_stretch_replaced_is_refused_or_loads_the_same(path: Path, data: st.DataObject) -> None:
    fd.save_cmdp(example(), path)
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)) | st.integers(len(whole) - 600, len(whole)))
    end = start + data.draw(st.integers(0, 40))
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=40)) + whole[end:])
    try:
        loaded = contents(fd.load_cmdp(path))
    except fd.FlexDOMEError:
        return
    assert loaded == contents(example())


# -- hostile files --------------------------------------------------------------------------------------


def forge(path: Path, header: Any = None, **arrays: Any) -> None:
    """The saved file with changes to its header and arrays (None takes one away); checksums are right."""
    stored, kept = read_archive(path, "flexdome-cmdp", 1)
    changed = {**kept, **arrays}
    write_archive(
        path,
        stored if header is None else header(stored),
        {k: v for k, v in changed.items() if v is not None},
    )


def rezip(path: Path, change: Any, method: int = zipfile.ZIP_STORED) -> None:
    """The saved file with its members (names to bytes) changed by ``change``."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in change(members):
            archive.writestr(name, data)


def npy(description: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = description.encode() + b"\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def replaced(name: str, data: bytes) -> Any:
    return lambda members: [(n, data if n == name else d) for n, d in members]


def test_a_member_is_never_unpickled(saved: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    stream = io.BytesIO()
    np.save(stream, np.array([Trap()], dtype=object), allow_pickle=True)
    rezip(saved, replaced("p.npy", stream.getvalue()))
    assert "'p.npy' that does not hold plain numbers" in refusal(saved)
    assert not (tmp_path / "sprung").exists()


def test_a_compressed_member_is_refused(saved: Path) -> None:
    rezip(saved, lambda members: [*members, ("bomb.npy", bytes(50_000_000))], zipfile.ZIP_DEFLATED)
    assert saved.stat().st_size < 100_000
    assert "declares more data than it holds" in refusal(saved)


def test_a_compressed_member_is_refused_even_where_it_is_small(saved: Path) -> None:
    rezip(saved, lambda members: members, zipfile.ZIP_LZMA)
    assert "that is not a plain array" in refusal(saved)


DESCRIPTIONS = {
    "a huge shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3, 2), }",
    "a huge empty shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 999999999999999999), }",
    "thousands of digits": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
    "digits that are slow to match": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 60 + "x), }",
    "hundreds of axes": f"{{'descr': '<f8', 'fortran_order': False, 'shape': (1{', 1' * 300}), }}",
    "a negative length": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "another order": "{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }",
    "words": "{'descr': '<U2', 'fortran_order': False, 'shape': (1,), }",
    "dates": "{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "records": "{'descr': [('x', '<f8')], 'fortran_order': False, 'shape': (1,), }",
    "a type that does not exist": "{'descr': '<f1', 'fortran_order': False, 'shape': (8,), }",
    "a key too many": "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
    "a deep expression": "-" * 5000 + "1",
    "open brackets": "(" * 5000,
    "an escape that does not exist": "'\\d'",
    "a number of an old Python": "1L",
    "nothing": "",
}


@pytest.mark.parametrize("case", DESCRIPTIONS)
def test_a_description_that_lies_is_refused(saved: Path, case: str) -> None:
    rezip(saved, replaced("rewards.npy", npy(DESCRIPTIONS[case], bytes(8))))
    expected = "but holds 8 bytes" if "huge" in case else "does not hold plain numbers in C order"
    text = refusal(saved)
    assert "has a member 'rewards.npy' that" in text
    assert expected in text


def test_an_array_format_of_the_future_is_refused(saved: Path) -> None:
    rezip(saved, replaced("rewards.npy", npy("{}", version=b"\x03\x00")))
    assert "has a member 'rewards.npy' that is not a plain array" in refusal(saved)


def test_a_member_that_is_not_an_array_is_refused(saved: Path) -> None:
    rezip(saved, lambda members: [*members, ("read me.txt", b"hello")])
    assert "has a member 'read me.txt' that is not a plain array" in refusal(saved)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(saved: Path) -> None:
    rezip(saved, lambda members: [*members, members[-1]])
    assert "has two members 'next_states.npy'" in refusal(saved)


def test_a_zip_without_a_header_is_refused(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), p=np.ones(3))
    assert "has no header" in refusal(path.with_suffix(".npz"))


def with_header(path: Path, text: bytes) -> None:
    stream = io.BytesIO()
    np.save(stream, np.frombuffer(text, dtype=np.uint8))
    rezip(path, replaced("header.npy", stream.getvalue()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is damaged or not a flexdome file"),
        (b"{", "is damaged or not a flexdome file"),
        (b"\xff\xfe", "is damaged or not a flexdome file"),
        (b"[" * 100_000, "is damaged or not a flexdome file"),
        (b"9" * 5000, "is damaged or not a flexdome file"),
        (b"[1]", "has a header that is [1], not an object"),
        (b"null", "has a header that is None, not an object"),
        (b"NaN", "has NaN in its header, where every number must be finite"),
        (b'{"format": -Infinity}', "has -Infinity in its header, where every number must be finite"),
        (b"{}", "has format None; it must be 'flexdome-cmdp'"),
        (b'{"format": ["flexdome-cmdp"]}', "has format ['flexdome-cmdp']; it must be 'flexdome-cmdp'"),
        (b'{"format": "flexdome-cmdp"}', "has version None of flexdome-cmdp; this program reads version 1"),
    ],
    ids=lambda text: str(text[:40]),
)
def test_a_header_that_is_none_is_refused(saved: Path, text: bytes, message: str) -> None:
    with_header(saved, text)
    assert message in refusal(saved)


LAW = {"law": "fixed", "parameters": [2.0], "per": "episode", "clip": None}

HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": (
        {"format": "flexdome-learner"},
        "has format 'flexdome-learner'; it must be 'flexdome-cmdp'",
    ),
    "a later version": ({"version": 2}, "has version 2 of flexdome-cmdp; this program reads version 1"),
    "a version that is true": ({"version": True}, "has version True of flexdome-cmdp"),
    "a version that is a float": ({"version": 1.0}, "has version 1.0 of flexdome-cmdp"),
    "a key too many": (
        {"more": 1},
        "header has ['costs', 'format', 'laws', 'more', 'name', 'noise', ...]; it must have",
    ),
    "a key too few": (
        {"noise": ...},
        "header has ['costs', 'format', 'laws', 'name', 'sparse', 'stationary', ...]; it must",
    ),
    "a name that is a number": ({"name": 3}, "name is 3; it must be a string"),
    "noise that is a list": ({"noise": ["none"]}, "noise is ['none']; it must be 'none' or 'bernoulli'"),
    "a flag that is a number": ({"sparse": 1}, "sparse is 1; it must be true or false"),
    "a flag that is null": ({"stationary": None}, "stationary is None; it must be true or false"),
    "a stationary flag that is wrong": (
        {"stationary": True},
        "p has 4 steps; it must have 1 where stationary is true",
    ),
    "a sparse flag that is wrong": (
        {"sparse": False},
        "arrays has ['entries', 'initial', 'next_states', 'p', 'rewards']",
    ),
    "laws that are a number": ({"laws": 3}, "laws is 3; it must be a list"),
    "no laws": ({"laws": []}, "limits has 0 entries; it must have m = 1"),
    "a law that is a number": ({"laws": [2.0]}, "laws[0] is 2.0; it must be an object"),
    "a law with a key too many": (
        {"laws": [{**LAW, "x": 1}]},
        "laws[0] has ['clip', 'law', 'parameters', 'per', 'x']",
    ),
    "an unknown law": (
        {"laws": [{**LAW, "law": "cauchy"}]},
        "threshold law is 'cauchy'; it must be one of fixed",
    ),
    "a law that is an object": (
        {"laws": [{**LAW, "law": {}}]},
        "threshold law is {}; it must be one of fixed",
    ),
    "parameters that are null": (
        {"laws": [{**LAW, "parameters": None}]},
        "threshold parameters is None; it must be 1",
    ),
    "parameters that are objects": (
        {"laws": [{**LAW, "parameters": [{}]}]},
        "threshold value is {}; it must be a real",
    ),
    "a huge parameter": ({"laws": [{**LAW, "parameters": [10**400]}]}, "threshold value has dtype object"),
    "a limit above H": (
        {"laws": [{**LAW, "parameters": [5]}]},
        "limits[0] is 5.0; it must lie in [0, H] = [0, 4]",
    ),
    "a clip interval that is a word": (
        {"laws": [{**LAW, "clip": "ab"}]},
        "threshold clip is 'ab'; it must be 2 numbers",
    ),
    "an unknown rhythm": (
        {"laws": [{**LAW, "per": 3}]},
        "threshold per is 3; it must be 'episode' or 'step'",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_that_lies_is_refused(saved: Path, case: str) -> None:
    changes, message = HEADERS[case]
    forge(saved, lambda header: {k: v for k, v in {**header, **changes}.items() if v is not ...})
    assert message in refusal(saved)


ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "an array too few": (
        {"initial": None},
        "arrays has ['entries', 'next_states', 'p', 'rewards']; it must have",
    ),
    "an array too many": (
        {"more": np.ones(1)},
        "arrays has ['entries', 'initial', 'more', 'next_states', 'p', 'rewards']",
    ),
    "transitions that are a number": (
        {"p": np.array(1.0)},
        "p has shape (); it must have 4 axes, none empty",
    ),
    "rewards without steps": (
        {"rewards": np.ones((0, S, A))},
        "rewards has shape (0, 3, 2); it must have 3 axes, none empty",
    ),
    "no costs": (
        {"entries": np.ones((0, H, S, A))},
        "entries has shape (0, 4, 3, 2); it must have 4 axes, none empty",
    ),
    "rewards that are nan": (
        {"rewards": np.full((H, S, A), np.nan)},
        "rewards[0, 0, 0] is nan; it must be finite",
    ),
    "costs above one": (
        {"entries": np.full((1, H, S, A), 2.0)},
        "costs[0, 0, 0, 0] is 2.0; it must lie in [0, 1]",
    ),
    "rows that do not sum to one": (
        {"p": np.ones((H, S, A, S))},
        "transitions[0, 0, 0] sums to 3.0; it must sum to one",
    ),
    "successors beyond the states": (
        {"next_states": np.full((H, S, A, S), 9)},
        "next_states[0, 0, 0, 0] is 9; it must",
    ),
    "successors of one step": (
        {"next_states": np.zeros((1, S, A, S), int)},
        "next_states has shape (1, 3, 2, 3); it must",
    ),
    "initial probabilities of other states": (
        {"initial": np.ones(1)},
        "initial has shape (1,); it must be a state or",
    ),
    "an initial state that is a number": (
        {"initial": np.array(1)},
        "initial has shape (); it must have 1 axes",
    ),
    "steps that disagree": (
        {"rewards": np.ones((2, S, A))},
        "entries has 4 steps; it must have 2, as rewards has",
    ),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_break_a_rule_are_refused(saved: Path, case: str) -> None:
    changes, message = ARRAYS[case]
    forge(saved, **changes)
    text = refusal(saved)
    assert "does not hold a valid CMDP" in text
    assert message in text


@pytest.mark.parametrize("name", ["rewards", "entries"])
def test_arrays_that_change_in_a_stationary_file_are_refused(path: Path, name: str) -> None:
    fd.save_cmdp(dense(), path)
    array = dense().rewards if name == "rewards" else dense().utilities
    forge(path, **{name: array * np.linspace(0.5, 1.0, H)[:, None, None]})
    assert f"{name} differs between steps; it must not where stationary is true" in refusal(path)


def test_a_small_file_cannot_ask_for_many_steps(path: Path) -> None:
    """Rewards of many steps times many constraints of one step would be 80 GB."""
    fd.save_cmdp(dense(), path)
    forge(path, rewards=np.ones((20_000, S, A)), entries=np.ones((100_000, 1, S, A)))
    assert "entries has 1 steps; it must have 20000, as rewards has" in refusal(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(SHARED, max_examples=200)
@given(data=st.data(), value=JSON)
def test_any_value_in_the_header_is_taken_or_refused(path: Path, data: st.DataObject, value: Any) -> None:
    fd.save_cmdp(example(), path)
    keys = ("name", "noise", "stationary", "sparse", "costs", "laws", *LAW)
    key = data.draw(st.sampled_from(keys))

    def change(header: dict[str, Any]) -> dict[str, Any]:
        return {**header, "laws": [{**LAW, key: value}]} if key in LAW else {**header, key: value}

    forge(path, change)
    try:
        assert isinstance(fd.load_cmdp(path), fd.CMDP)
    except fd.FileFormatError as error:
        assert "does not hold a valid CMDP" in str(error)  # noqa: PT017  either outcome is right


@settings(SHARED, max_examples=100)
@given(data=st.data())
def test_any_array_in_place_of_another_is_taken_or_refused(path: Path, data: st.DataObject) -> None:
    fd.save_cmdp(example(), path)
    name = data.draw(st.sampled_from(("p", "initial", "rewards", "entries", "next_states")))
    dtype = data.draw(st.sampled_from(("?", "i1", ">i4", "u8", "f2", "<f4", ">f8")))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=5))
    forge(path, **{name: np.ones(shape, dtype=dtype)})
    try:
        assert isinstance(fd.load_cmdp(path), fd.CMDP)
    except fd.FileFormatError as error:
        assert "does not hold a valid CMDP" in str(error)  # noqa: PT017  either outcome is right


# -- the archive underneath -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "<i4", ">i8", "f2", "<f4", ">f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_an_archive_keeps_the_type_and_shape_of_an_array(path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape)) or 1).astype(dtype)[: int(np.prod(shape))].reshape(shape)
    write_archive(path, {"format": "x", "version": 3}, {"file": array})
    loaded = read_archive(path, "x", 3)[1]["file"]
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(loaded, array)


def test_an_archive_takes_arrays_in_any_memory_layout(path: Path) -> None:
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)[::-1]
    write_archive(path, {"format": "x", "version": 3}, {"array": array})
    np.testing.assert_array_equal(read_archive(path, "x", 3)[1]["array"], array)


def test_an_archive_keeps_its_header(path: Path) -> None:
    header = {"format": "x", "version": 3, "numbers": [0.1, 1e300, -0.0], "text": "ü", "nothing": None}
    write_archive(path, header, {})
    assert json.dumps(read_archive(path, "x", 3)[0], sort_keys=True) == json.dumps(header, sort_keys=True)
