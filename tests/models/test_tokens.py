"""Byte pairs: what is learnt, and that text comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isorep import InputError
from isorep.models import BytePairs

TEXT = "the cat and the hat and then the other cat\n\n  thé œuvre"
TOKENS = BytePairs.learnt([TEXT], 264)


@given(st.text(max_size=80))
def test_any_text_comes_back(text):
    assert TOKENS.decode(TOKENS.encode(text)) == text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert TOKENS.encode(text).max(initial=0) < TOKENS.vocabulary == 264


def test_the_most_frequent_pair_is_merged_first():
    tokens = BytePairs.learnt(["ab ab ab cd cd"], 300)
    # "ab" occurs three times, twice after a space; "cd" twice, always after one.
    assert tokens.merges == ((97, 98), (32, 99), (32, 256), (257, 100))
    assert tokens.encode("ab cd").tolist() == [256, 259]
    assert tokens.encode(" ab").tolist() == [258]
    assert tokens.encode("dc").tolist() == [100, 99]


def test_pairs_do_not_reach_over_words():
    tokens = BytePairs.learnt(["a. a. a."], 300)
    assert tokens.encode("a.").tolist() == [97, 46]


def test_what_makes_no_vocabulary_is_refused():
    with pytest.raises(InputError, match="does not hold the 256 bytes"):
        BytePairs.learnt([TEXT], 100)
    with pytest.raises(InputError, match="token 256 is made of"):
        BytePairs([(97, 300)])
