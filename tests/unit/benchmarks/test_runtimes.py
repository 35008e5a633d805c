"""What is read from a sample's configuration, and which batch size the loop is best at."""

from __future__ import annotations

import pytest
from runtimes import best, input_name, thread_count


def test_the_first_inputs_name_is_found_however_it_is_laid_out() -> None:
    assert input_name('max_batch_size: 4\ninput [ { name: "image" dims: [ 1 ] } ]') == "image"
    assert input_name('name: "m"\ninput [\n  {\n    name: "INPUT__0"\n  }\n]') == "INPUT__0"


def test_a_configuration_without_an_input_is_refused() -> None:
    with pytest.raises(RuntimeError, match="names no input"):
        input_name('name: "m"')


@pytest.mark.parametrize("key", ["intra_op_thread_count", "INTRA_OP_THREAD_COUNT"])
def test_the_number_of_threads_is_found(key: str) -> None:
    assert thread_count(f'parameters {{ key: "{key}" value: {{ string_value: "3" }} }}') == 3


def test_a_configuration_that_says_nothing_leaves_the_threads_to_the_runtime() -> None:
    assert thread_count('parameters { key: "other" value: { string_value: "3" } }') == 0


def test_the_best_batch_size_has_the_most_rows_a_second() -> None:
    bare = {"1": {"rows_s": 10.0}, "16": {"rows_s": 90.0}, "64": {"rows_s": 80.0}}
    assert best(bare) == ("16", {"rows_s": 90.0})
