# SPDX-License-Identifier: MIT
"""Ranks whose calls differ in number, order and end; see work_histories.py."""
import ranks


def test_a_callback_starts_an_operation_and_waits_for_it():
    ranks.run("work_histories:nested", 2, seconds=60)


def test_a_callback_destroys_the_group_that_it_hangs_on():
    ranks.run("work_histories:destroyed_by_callback", 2)


def test_a_future_has_its_value_when_its_operation_was_waited_for():
    ranks.run("work_histories:values_after_wait", 2, seconds=60)


def test_a_callback_of_a_message_waits_for_other_messages():
    ranks.run("work_histories:waits_for_messages", 2, seconds=40)


def test_a_callback_of_a_message_sends_and_waits_for_the_answer():
    ranks.run("work_histories:answers_in_callback", 2, seconds=40)


def test_a_group_is_destroyed_while_a_callback_waits_for_a_message():
    ranks.run("work_histories:destroyed_while_callback_waits", 2, seconds=40)


def test_powersgd_equals_gloo():
    ranks.run("work_histories:powersgd", 2, seconds=90)


def test_what_a_rank_sent_before_it_ended_arrives():
    ranks.run("work_histories:sent_and_gone", 3)


def test_any_source_goes_on_without_a_rank_that_ended():
    ranks.run("work_histories:any_without_one", 3)


def test_any_source_notices_that_all_are_gone():
    ranks.run("work_histories:any_of_none", 3)


def test_a_refused_message_keeps_no_memory():
    ranks.run("work_histories:refused_messages", 2)


def test_a_forked_child_does_not_hold_the_place_of_its_parent():
    ranks.run("work_histories:orphaned", 1)


def test_the_place_of_a_rank_that_lives_is_refused():
    ranks.run("work_histories:held", 1)


def test_a_rank_killed_while_it_forks_leaves_its_place():
    ranks.run("work_histories:killed_while_forking", 1)
    ranks.run("work_histories:killed_and_not_waited_for", 1)


def test_a_forked_child_is_refused_what_is_under_way():
    ranks.run("work_histories:inherited_works", 2)


def test_a_message_without_a_thread_is_refused():
    ranks.run("work_histories:message_without_thread", 2)


def test_callbacks_without_a_second_thread_hold_up_what_follows():
    ranks.run("work_histories:callback_without_thread", 2)


def test_a_callback_without_a_second_thread_waits_for_what_follows():
    ranks.run("work_histories:waits_without_thread", 2, seconds=40)


def test_a_future_of_a_message_without_a_thread_is_refused():
    ranks.run("work_histories:message_future_without_thread", 2, seconds=40)


def test_threads_block_signals_and_callbacks_do_not():
    ranks.run("work_histories:signals", 2)
    ranks.run("work_histories:signals_of_second_threads", 2, seconds=40)


def test_a_forked_child_leaves_a_group_between_hosts():
    ranks.run("work_histories:forked_between_hosts", 2)


def test_refusals_between_hosts_leave_the_group_whole():
    ranks.run("work_histories:refused_between_hosts", 2)


def test_a_message_between_hosts_is_taken_once():
    ranks.run("work_histories:waited_twice_between_hosts", 2)
