"""Where each fault of AgentSkiller's rollout that we must not have is tested: an index that fails when a test
goes away.

The numbers are those of the list that the project was given. What stands behind a number is the fault, in a few words.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOMAINS: dict[str, list[str]] = {
    # D1: progress within a conversation was never saved
    "D1": [
        "engine/test_resume.py::test_paused_conversation_goes_on_in_its_middle",
        "engine/test_kill.py::test_killed_run_resumes_without_losing_doubling_or_paying_twice",
    ],
    # D2: a finished conversation was continued and written twice
    "D2": [
        "engine/test_resume.py::test_finished_run_is_not_paid_for_again",
        "cli/test_run.py::test_run_twice_resumes_and_no_resume_moves_aside",
    ],
    # D3: servers with the same initials lost their tools
    "D3": [
        "tasks/test_naming.py::test_shared_initials_get_different_prefixes",
        "tasks/test_naming.py::test_prefixes_are_unique_legal_and_depend_only_on_the_set",
        "environments/test_offering.py::test_shared_initials_leave_no_tool_out",
    ],
    # D4: a tool's answer went to another conversation, or never came
    "D4": [
        "engine/test_sessions.py::test_eight_episodes_with_the_identical_call_each_get_their_own_state",
        "engine/test_sessions.py::test_two_identical_calls_in_one_message_get_two_ordered_answers",
        "environments/test_workers.py::test_eight_worlds_calling_alike_at_once_get_their_own_answers",
    ],
    # D5: the monitor did nothing
    "D5": ["engine/test_loop.py::test_monitor_ends_a_conversation_without_tools_with_its_own_reason"],
    # D6: answers came in the order in which tools were done
    "D6": ["engine/test_sessions.py::test_slow_first_call_is_still_answered_first"],
    # D7: a second attempt saw the state of the first
    "D7": [
        "engine/test_sessions.py::test_samples_of_one_task_start_from_the_same_untouched_world",
        "environments/test_mock.py::test_state_in_a_modules_globals_does_not_leak_between_episodes",
    ],
    # D8: the order of names in a database's folder was found and thrown away
    "D8": ["cli/test_batch.py::test_cross_combination_is_a_set_and_its_parts_may_stand_in_any_order"],
    # D9: where servers lie was a constant in the source
    "D9": [
        "cli/test_batch.py::test_all_single_domains_run_in_one_run",
        "cli/test_label_and_export.py::test_folder_laid_out_by_hand_goes_the_seeds_way_to_the_end",
    ],
    # D10: acronyms in names led to no tools, and the run went on without
    "D10": ["tasks/test_naming.py::test_server_is_found_however_it_is_spelt"],
    # D11: names were split by a list of known names
    "D11": ["tasks/test_naming.py::test_fused_name_is_split_by_the_servers_that_exist"],
    # D12: modes were ignored in several turns
    "D12": [
        "engine/test_loop.py::test_mode_no_tool_offers_none_in_several_turns_too",
        "engine/test_loop.py::test_mode_wrong_tool_offers_the_tasks_own_tools_and_scores_restraint",
    ],
    # D13: labels were not what the model saw
    "D13": [
        "engine/test_as_sent.py::test_label_has_the_bytes_of_the_request",
        "environments/test_offering.py::test_missing_policy_is_an_error_and_never_a_default_text",
    ],
    # D14: a name with an unknown prefix ran on some server
    "D14": [
        "engine/test_loop.py::test_what_goes_wrong_with_a_call_becomes_an_observation",
        "tasks/test_naming.py::test_long_tool_names_stay_within_what_providers_take",
    ],
    # D15: commands that could not start
    "D15": [
        "cli/test_batch.py::test_scattered_queries_run_together_and_merge_into_one_file",
        "cli/test_batch.py::test_generated_config_runs_as_it_stands",
        "cli/test_run.py::test_places_that_cannot_be_written_are_refused_and_left_alone",
    ],
    # D16: a torn last line stopped every later resume
    "D16": ["engine/test_resume.py::test_torn_last_line_is_mended_byte_for_byte"],
    # D17: failed conversations counted as done, or left no trace
    "D17": ["engine/test_resume.py::test_failed_conversations_are_on_record_once_and_tried_again"],
    # D18: starting anew destroyed the output before it
    "D18": ["engine/test_resume.py::test_starting_anew_moves_the_old_run_and_output_aside"],
    # D19: one bad line or server stopped everything
    "D19": [
        "tasks/test_jsonl.py::test_bad_lines_are_reported_with_file_and_line_and_good_ones_still_run",
        "cli/test_batch.py::test_broken_server_costs_its_own_domain_only",
    ],
    # D20: threads, one for each domain; no limits, no orderly end
    "D20": [
        "engine/test_sessions.py::test_workers_are_live_conversations_over_all_datasets_and_fill_one_alone",
        "models/test_limits.py::test_no_minute_ever_holds_more_than_the_limit",
        "cli/test_run.py::test_interrupted_run_exits_as_shells_expect_and_resumes",
    ],
    # D21: no account of tokens and cost, no word on what ran
    "D21": [
        "models/test_openai.py::test_answer_is_priced_by_its_tokens",
        "cli/test_run.py::test_run_ends_with_a_summary_that_says_what_came_out_and_where",
    ],
    # D22: retries by words in error texts; a failing user threw the agent's work away
    "D22": [
        "models/test_openai.py::test_refusal_is_not_tried_again",
        "engine/test_resume.py::test_users_failure_keeps_the_agents_work",
    ],
    # D23: ids that clash
    "D23": ["tasks/test_jsonl.py::test_second_task_of_an_id_is_left_out_and_named"],
    # D24: variables expanded wrongly, or not at all
    "D24": [
        "config/test_load.py::test_variables_are_expanded_everywhere_each_by_its_own_value",
        "config/test_load.py::test_unset_variable_is_an_error_with_its_key",
    ],
    # S1: keys in files and on the screen
    "S1": ["cli/test_run.py::test_no_secret_ever_reaches_a_file_or_the_terminal"],
    # S2: importing the package changed the environment
    "S2": ["config/test_load.py::test_reading_a_config_leaves_the_environment_alone"],
    # S3: code that a model wrote ran with all our rights
    "S3": [
        "environments/test_workers.py::test_a_server_is_kept_from_what_is_ours",
        "environments/test_workers.py::test_a_call_that_hangs_is_undone_and_costs_nobody_else",
        "environments/test_workers.py::test_a_call_that_takes_the_process_down_is_undone",
    ],
    # V1: an idle agent passed tasks of updating where some row was pending
    "V1": ["scoring/test_state.py::test_reference_passes_and_an_idle_agent_fails_with_the_rows_that_differ"],
    # V2: deleted rows were not seen
    "V2": ["scoring/test_state.py::test_reference_passes_and_an_idle_agent_fails_with_the_rows_that_differ"],
    # V3: an agent could destroy other rows and pass
    "V3": [
        "scoring/test_state.py::test_destructive_extra_write_fails_although_the_task_is_done",
        "scoring/test_actions.py::test_extra_write_fails_and_reads_and_previews_do_not",
    ],
    # V4: names with a prefix could not be replayed
    "V4": ["scoring/test_state.py::test_prefixed_names_reach_their_servers_and_the_reference_replays"],
    # V5: what the second server changed was not seen
    "V5": ["scoring/test_state.py::test_change_through_the_second_server_is_seen"],
    # V6: scores were one document in a file called JSONL, in a folder that was not made
    "V6": ["pipelines/test_score.py::test_scores_come_out_as_they_were_and_nothing_of_the_run_is_changed"],
    # V7: a reference that failed was used all the same; what was skipped passed
    "V7": [
        "scoring/test_state.py::test_reference_that_does_not_run_scores_nobody",
        "scoring/test_panel.py::test_run_counts_the_unscored_apart_and_never_as_solved",
        "scoring/test_judge.py::test_what_is_no_verdict_judges_nothing",
    ],
}

WEB: dict[str, list[str]] = {
    # B1: a judge whose answer was empty, cut or a refusal passed the task
    "B1": [
        "environments/test_web_rubric.py::test_what_is_no_verdict_judges_nothing",
        "environments/test_web_rubric.py::test_any_beginning_of_a_verdict_is_none",
    ],
    # B2: a judge that could not be asked was a failure of the agent, and was not asked again
    "B2": [
        "environments/test_web_rubric.py::test_judge_that_is_down_leaves_it_unjudged",
        "environments/web/test_web_scoring.py::test_judge_that_is_down_leaves_the_others_alone",
    ],
    # B3: the block list was never written and never read
    "B3": [
        "environments/web/test_web_command.py::test_site_that_lets_nobody_in_is_learnt_from_its_pages_and_left_out",
        "pipelines/test_iterations.py::test_site_found_blocked_is_not_sampled_again_until_it_expires",
    ],
    # B4: an error lost all steps before it
    "B4": ["environments/test_web_steps.py::test_a_failed_trajectory_keeps_its_steps_and_ends_with_an_error"],
    # B5: trajectories without an answer were never looked at for blocking
    "B5": ["environments/test_web_rubric.py::test_unanswered_work_is_judged_for_blocking_alone"],
    # B6: going back on the task's own site was replaced, ignored, and ended the episode
    "B6": [
        "environments/web/test_agent_in_browser.py::test_going_back_from_the_first_page_three_times_ends_it",
        "environments/web/test_web_actions.py::test_click_follows_a_link_and_goback_returns",
    ],
    # B7: resuming a train run drew another sample
    "B7": [
        "pipelines/test_iterations.py::test_unfinished_iteration_is_gone_on_with_over_its_own_sample",
        "environments/web/test_web_command.py::test_stopped_iteration_is_gone_on_with_over_the_same_sample",
    ],
    # B8: the metrics were never computed, and failed where a step had no reward
    "B8": [
        "environments/test_web_rates.py::test_the_worked_example_comes_out_as_in_the_seed",
        "environments/test_web_rates.py::test_statuses_say_what_lengths_only_guess",
        "environments/web/test_web_saving.py::test_a_run_in_browsers_is_saved_as_the_seed_saves_it",
    ],
    # B9: addresses got a second scheme, waits had no bound, calls that could not be read were waits
    "B9": [
        "tasks/test_web_tasks.py::test_scheme_is_added_only_where_there_is_none",
        "environments/web/test_web_actions.py::test_navigate_opens_an_address_and_refuses_what_is_none",
        "environments/web/test_web_actions.py::test_tools_take_places_of_their_mode_only",
        "engine/test_web_agent.py::test_answer_without_a_call_is_told_so_and_the_work_goes_on",
    ],
    # B13: nothing of a trajectory said which group, seed or policy it came from
    "B13": ["environments/test_web_steps.py::test_each_answer_of_the_agent_is_a_step_with_what_it_saw_before"],
    # F1, F2: waiting for a browser had no end
    "F1": ["environments/web/test_web_faults.py::test_a_cancelled_opening_gives_its_place_back"],
    "F2": ["environments/web/test_web_faults.py::test_a_browser_that_hangs_is_replaced"],
    # F9: waiting for judges had no end
    "F9": ["scoring/test_panel.py::test_scorer_that_breaks_or_hangs_leaves_its_part_unscored"],
    # F10: a run that failed ended as if it had not
    "F10": ["environments/web/test_web_command.py::test_site_that_is_not_there_is_noted_and_fails_its_tasks_only"],
    # F12: what was cut kept its browser
    "F12": ["environments/web/test_web_faults.py::test_a_closed_pool_leaves_no_process"],
    # F15: a crash lost up to a quarter of a batch
    "F15": [
        "engine/test_kill.py::test_killed_run_resumes_without_losing_doubling_or_paying_twice",
        "pipelines/test_saving_iterations.py::test_an_error_on_the_way_leaves_the_files_that_were_there",
    ],
    # F16: loading trajectories ran code
    "F16": [
        "trajectories/test_pt.py::test_torch_loads_it_without_running_code",
        "trajectories/test_pt.py::test_a_file_that_names_code_is_refused_and_runs_none",
    ],
    # O2, O4: browsers were leased twice, or never given back
    "O2": ["environments/web/test_web_faults.py::test_places_are_limited_and_come_back"],
    "O4": ["environments/web/test_web_faults.py::test_no_browser_outlives_us"],
    # O5: a late client drove another task's page
    "O5": ["environments/web/test_around.py::test_episodes_share_nothing"],
    # O9: a browser that hung was never noticed
    "O9": [
        "environments/web/test_web_faults.py::test_a_page_that_hangs_costs_its_own_episode_only",
        "environments/web/test_web_faults.py::test_a_browser_that_hangs_is_replaced",
    ],
    # O10: every step slept
    "O10": ["environments/web/test_web_actions.py::test_a_click_that_loads_something_is_observed_when_it_came"],
    # O12: pop-ups were lost
    "O12": ["environments/web/test_around.py::test_a_new_tab_becomes_the_active_one_and_goback_closes_it"],
    # O14: pages could reach the machine's own network
    "O14": [
        "environments/web/test_egress.py::test_other_hosts_are_refused_whatever_asks_for_them",
        "environments/web/test_egress.py::test_a_name_that_leads_to_a_private_address_is_refused",
    ],
}
FAULTS = DOMAINS | {f"web {number}": tests for number, tests in WEB.items()}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_a_test_that_is_there(fault: str) -> None:
    for name in FAULTS[fault]:
        path, _, function = name.partition("::")
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        assert function in {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }, name
