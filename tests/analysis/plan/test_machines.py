"""Speeds looked up, given and measured; and the time and cost that follow."""

import pytest

from chainrule.analysis.plan.machines import ACCELERATORS, find_machine, measure_this_machine, training_time
from chainrule.errors import UserError


def test_machines_are_found_by_name_or_given_as_a_speed():
    assert find_machine("A100") is ACCELERATORS["a100"]
    assert find_machine("6.5T").flops_per_second == 6.5e12
    with pytest.raises(UserError, match="unknown machine 'h10'; did you mean 'h100'"):
        find_machine("h10")
    with pytest.raises(UserError, match="the speed of a machine must be"):
        find_machine("6.5X")


def test_this_machine_is_measured():
    machine = measure_this_machine(seconds=0.0, size=64)
    assert machine.flops_per_second > 0
    assert machine.number_format == "float32, measured"


def test_time_and_cost_follow_from_speed_share_and_number():
    time = training_time(ACCELERATORS["a100"], 312e12 * 3600, 200e9, utilisation=0.5, devices=4, price=2.0)
    assert time.seconds == pytest.approx(1800)
    assert time.cost == pytest.approx(4.0)  # four machines for half an hour
    assert time.devices_for_memory == 3  # 200 GB in 80 GB each


def test_without_a_price_there_is_no_cost():
    assert training_time(ACCELERATORS["h100"], 1e15, 1e9).cost is None
