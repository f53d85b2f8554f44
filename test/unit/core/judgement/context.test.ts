import { describe, expect, test } from 'vitest'
import { setsContext } from '../../../../src/core/judgement/context.ts'

/** Tools of published servers: those that set something up in memory, and those that do not. */
const servers: Readonly<Record<string, { readonly sets: string; readonly others: string }>> = {
  playwright: {
    sets: 'browser_navigate browser_navigate_back',
    others:
      'browser_click browser_close browser_console_messages browser_drag browser_evaluate browser_file_upload browser_fill_form browser_handle_dialog browser_hover browser_install browser_network_requests browser_press_key browser_resize browser_select_option browser_snapshot browser_take_screenshot browser_type browser_wait_for',
  },
  puppeteer: {
    sets: 'puppeteer_navigate',
    others:
      'puppeteer_screenshot puppeteer_click puppeteer_fill puppeteer_select puppeteer_hover puppeteer_evaluate',
  },
  'chrome-devtools': {
    sets: 'new_page navigate_page select_page',
    others:
      'list_pages close_page take_snapshot take_screenshot click fill hover get_network_request list_console_messages evaluate_script wait_for handle_dialog resize_page',
  },
  databases: {
    sets: 'connect connect_database switch-connection use_database select_database set_active_database begin_transaction',
    others:
      'query read_query write_query execute_sql list-databases list_connections test_connection create-index create_table describe_table insert_rows select_rows drop_collection switch_off_index explain',
  },
  filesystem: {
    sets: '',
    others:
      'read_file read_text_file read_media_file read_multiple_files write_file edit_file create_directory list_directory list_directory_with_sizes directory_tree move_file search_files get_file_info list_allowed_directories',
  },
  memory: {
    sets: '',
    others:
      'create_entities create_relations add_observations delete_entities delete_observations delete_relations read_graph search_nodes open_nodes',
  },
  everything: { sets: '', others: 'echo get-sum get-env get-tiny-image print-env annotated-message' },
  git: {
    sets: 'git_set_working_dir',
    others:
      'git_status git_diff_unstaged git_commit git_add git_reset git_log git_create_branch git_checkout git_show git_init',
  },
  github: {
    sets: '',
    others:
      'create_issue create_repository create_branch create_pull_request list_issues get_me search_code fork_repository update_issue merge_pull_request open_issue assign_copilot_to_issue',
  },
  'desktop-commander': {
    sets: 'start_process',
    others:
      'read_process_output list_processes kill_process list_sessions set_config_value get_config start_search',
  },
  others: {
    sets: 'login sign_in log-in authenticate ssh_connect activate_project set_active_project setDefaultAccount switch_context use_context open_session start_session create_session startDebugger cd',
    others:
      'list_login_attempts get_current_page set_status set_label use_template select_color connect_issue_to_project search_and_navigate_log open_pull_request start_workflow begin create_account_record',
  },
}

describe.each(Object.entries(servers))('tools of %s', (_server, { sets, others }) => {
  const words = (text: string): string[] => text.split(' ').filter(Boolean)

  test('that set something up in the memory of the server', () => {
    expect(words(sets).filter((name) => !setsContext(name))).toEqual([])
  })

  test('that do not', () => {
    expect(words(others).filter(setsContext)).toEqual([])
  })
})
