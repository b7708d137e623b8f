"""Text for language models: prose alone, in a fixed order, cut where it is asked to be."""

import sysconfig

import pytest

import isorep
from isorep.datasets import Document, standard_library_text, text_digest, text_documents
from isorep.datasets.text import prose

SOURCE = '''#!/usr/bin/env python
"""A module that says in more than eight words what it is for."""
# A comment of two lines that together
# hold enough words to be kept.
x = 1  # a trailing comment
def f():
    """Short."""
    return "# not a comment although it stands in a string of many words", 'few words'
TEXT = """
# inside a string this line is part of it, whatever it starts with, and is kept once
"""
# few words
'''


def test_prose_is_strings_and_comments_of_eight_words_in_their_order():
    assert prose(SOURCE).split("\n\n") == [
        "A module that says in more than eight words what it is for.",
        "A comment of two lines that together\nhold enough words to be kept.",
        "# not a comment although it stands in a string of many words",
        "# inside a string this line is part of it, whatever it starts with, and is kept once",
    ]


def test_the_library_comes_in_the_same_order_each_time_and_is_cut_at_the_limit():
    first = standard_library_text(limit=600_000)
    assert sum(len(document.text) for document in first) == 600_000
    again = standard_library_text(limit=600_000)
    assert first == again
    assert text_digest(first) == text_digest(again)
    names = [document.name for document in first]
    assert names[0] == "pydoc_data/topics.py"
    assert names[1:] == sorted(names[1:])
    assert len(names) > 5
    assert "def " not in first[1].text[:200]
    fewer = standard_library_text(limit=1000)
    assert fewer == [Document(names[0], first[0].text[:1000])]


def test_installed_packages_and_tests_are_left_out(tmp_path, monkeypatch):
    for name in ("a.py", "site-packages/b.py", "test/c.py", "d/e.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{name} holds one two three four five six seven words."""')
    (tmp_path / "template.py").write_text("this is {no} python !")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    assert [document.name for document in standard_library_text()] == ["a.py", "d/e.py"]


def test_a_digest_tells_texts_and_their_borders_apart():
    digests = {
        text_digest([Document("a", "one"), Document("b", "two")]),
        text_digest([Document("a", "onet"), Document("b", "wo")]),
        text_digest([Document("b", "two"), Document("a", "one")]),
        text_digest([]),
    }
    assert len(digests) == 4


def test_own_text_is_a_file_or_a_folder(tmp_path):
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.md").write_text("first")
    (tmp_path / "c.csv").write_text("1,2")
    (tmp_path / "empty.txt").write_text(" \n")
    assert [document.text for document in text_documents(tmp_path)] == ["first", "second"]
    assert [document.text for document in text_documents(tmp_path, limit=7)] == ["first", "se"]
    assert text_documents(tmp_path / "c.csv") == [Document("c.csv", "1,2")]


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(isorep.InputError, match="does not exist"):
        text_documents(tmp_path / "nowhere")
    (tmp_path / "sub").mkdir()
    with pytest.raises(isorep.InputError, match="holds no text"):
        text_documents(tmp_path / "sub")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(isorep.InputError, match="not UTF-8"):
        text_documents(tmp_path / "binary.txt")
    (tmp_path / "broken.py").write_text("def (")
    with pytest.raises(isorep.InputError, match="not Python"):
        text_documents(tmp_path / "broken.py")
    with pytest.raises(isorep.InputError, match="at least 1"):
        standard_library_text(limit=0)
