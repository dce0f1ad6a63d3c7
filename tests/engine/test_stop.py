from __future__ import annotations

import signal
import threading

import pytest

from rcusim.engine.stop import StopFlag, catching


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_flag_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)]
    with catching() as flag:
        assert not flag.is_raised()
        signal.raise_signal(number)
        assert flag.is_raised()
    assert [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_inner_block_shares_the_flag_of_the_outer_one() -> None:
    with catching() as outer:
        with catching() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner is outer
        assert outer.raised


def test_a_second_signal_is_impatience() -> None:
    with catching():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_get_a_flag_that_stays_down() -> None:
    seen: list[StopFlag] = []

    def work() -> None:
        with catching() as flag:
            seen.append(flag)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [flag.raised for flag in seen] == [False]
