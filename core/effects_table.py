"""The table that is shipped: common tools of agents, and how far each of them reaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from core.approvals import Effect
from core.effects_rows import METHOD_FIELDS, PAYMENT_PROVIDERS, Nobody, Row, Tables, key_of
from core.effects_shell import Program

READ, WRITE, SEND, MONEY = Effect

# Tools of one name

TOOLS: Mapping[Effect, str] = {
    READ: """
        read read_file read_files read_many_files read_multiple_files read_text_file read_media_file file_read view
        view_file open_file cat_file get_file_info file_info stat_file list_dir list_directory list_files
        list_allowed_directories directory_tree ls glob grep ripgrep grep_search file_search find_files search_files
        search_directory codebase_search semantic_search fs_search list_code_usages get_errors get_diagnostics
        notebook_read read_notebook document_parser text_chunker
        search web_search search_web internet_search google_search bing_search brave_web_search
        duckduckgo_search tavily_search exa_search web_search_exa serper_search perplexity_search perplexity_ask
        searxng_search wikipedia_search arxiv_search news_search image_search tool_search
        current_time get_current_time calculator think sequential_thinking
        todo_read read_todos list_todos get_plan sleep wait wait_for_seconds
        recall search_memory list_memories get_memory memory_search
        embedding_generator detect_language translate_text transliterate_text speech_to_text vision_analyze
        ask_user ask_user_question ask_followup_question request_user exit_plan_mode reply_to_user final_answer
        attempt_completion chat_reply chat_ui webhook_response
        gmaps_locations gmaps_nearby_places geocode get_weather battery_monitor network_monitor system_info
        location_monitor app_list motion_detection environmental_sensors
    """,
    WRITE: """
        write write_file write_to_file file_write create_file new_file file_create append_file append_to_file edit
        edit_file file_edit file_modify multi_edit multi_edit_file str_replace str_replace_in_file replace
        replace_in_file search_replace insert_content insert_edit_into_file edit_block notebook_edit edit_notebook
        create_directory make_directory mkdir move_file rename_file copy_file
        todo_write write_todos update_todo_list update_plan remember save_memory store_memory add_memory
        update_memory forget delete_memory memory_write write_note save_note text_to_speech set_project canvas
        agent_builder app_launcher wifi_automation bluetooth_automation audio_automation device_state_automation
        screen_control airplane_mode camera_control media_control
    """,
    SEND: """
        send_email send_mail send_message send_sms send_whatsapp send_notification post_message post_tweet
        publish publish_post deploy upload_file
    """,
    MONEY: """
        delete delete_file delete_files file_delete remove_file remove_files delete_directory remove_directory rmdir
        delete_path trash_file unlink pay make_payment create_payment send_payment transfer_money transfer_funds
        wire_transfer bank_transfer send_money
        book_flight book_hotel create_order add_order place_bid upgrade_plan
        refund create_refund issue_refund refund_payment charge create_charge charge_card buy
        purchase place_order submit_order confirm_order create_subscription cancel_subscription run_paid_actor
    """,
}

# Families: a tool with operations, spelled `github` with `create_issue`, `github.create_issue`, or as an MCP server.


@dataclass(frozen=True)
class Family:
    """A tool with operations. `names` are all that it goes by, `default` is for what is not listed; see Row.

    `fetches`: it may fetch what an argument says is an address. `queries` are operations that run SQL.
    """

    names: str
    read: str = ""
    write: str = ""
    send: str = ""
    money: str = ""
    default: Effect = SEND
    operation_fields: str = "operation action command"
    unset: str = ""
    url_fields: str = ""
    recipients: str = ""
    reaches_nobody: tuple[Nobody, ...] = ()
    sends: str = ""
    spends: str = ""
    words: str = ""
    fetches: bool = True
    reads: str = ""
    queries: str = ""


def _keys(text: str) -> tuple[str, ...]:
    return tuple(key_of(name) for name in text.split())


# An operation that is one for all of a service's others.
WHOLE_API = "call custom api api_call call_api api_request raw_request request graphql"
# Arguments that no look needs: somewhere to go to, something to run, further words for a command line.
_ADDRESSES = (
    "url urls uri href endpoint link address_url page_url target_url start_url base_url callback_url webhook_url"
)
_MORE_TO_DO = "script scripts code javascript js eval expression"
_MORE_WORDS = "args argv extra_args flags extra_flags"
_COMMANDS = "command commands cmd script"
# What a look is told to look for.
_WORDS = """
    query queries q search_query search_term question input text texts message messages content pattern regex prompt
    instructions
"""
# These only tell somebody something, or think: whatever they are given, they fetch nothing.
TELLING = """
    think sequential_thinking calculator current_time get_current_time sleep wait wait_for_seconds todo_read read_todos
    list_todos get_plan ask_user ask_user_question ask_followup_question request_user exit_plan_mode reply_to_user
    final_answer attempt_completion chat_reply chat_ui webhook_response
"""
_DELETES = "delete destroy purge prune permanent permanently delete_branch empty_trash"

_CREATES_EVENT = "create create_event event_create events_insert insert_event add_event"
_MAIL_PEOPLE = "to cc bcc recipient recipients to_recipients cc_recipients bcc_recipients reply_to"
_AMOUNT = ("amount", "currency")
_CHAT_PLACES = "channel channel_id chat chat_id conversation conversation_id recipient recipients to user user_id"

FAMILIES: tuple[Family, ...] = (
    Family(
        "str_replace_editor str_replace_based_edit_tool text_editor",
        read="view", write="create str_replace insert undo_edit", operation_fields="command",
    ),
    Family(
        "file files filesystem fs file_handler",
        read="""read view list ls stat info search find glob grep tree exists read_file read_text_file read_media_file
            read_multiple_files list_directory list_directory_with_sizes directory_tree search_files get_file_info
            list_allowed_directories""",
        write="""write create edit append insert replace str_replace move copy rename mkdir write_file edit_file
            create_directory move_file copy_file""",
        money="delete remove unlink rmdir trash delete_file remove_file delete_directory",
    ),
    Family(
        "memory notes note simple_memory mem0 knowledge_graph",
        read="read list get recall search view find query search_nodes open_nodes read_graph get_all list_notes "
        "get_note",
        write="""write create add store save remember update edit append forget delete remove create_entities
            create_relations add_observations delete_entities delete_relations delete_observations add_note update_note
            delete_note""",
        fetches=False,
    ),
    Family("todo todos todo_list", read="read list get", write="write add create update complete delete remove clear",
           fetches=False),
    Family("vector_store", read="query search get list", write="store add upsert delete", fetches=False),
    Family("data_source", read="read list get query", write="write append copy"),
    Family("process process_manager", read="list get_output status", write="stop restart kill",
           send="start send_input"),
    Family(
        "web search_engine", read="search web_search news_search image_search",
        send="fetch open open_page extract crawl read visit download", url_fields="url urls",
    ),
    Family("tavily", read="search tavily_search", send="extract crawl map tavily_extract tavily_crawl tavily_map",
           url_fields="url urls"),
    Family("exa", read="search web_search_exa company_research_exa", send="crawling crawling_exa get_contents",
           url_fields="url urls"),
    Family("brave brave_search", read="""search web_search local_search news_search image_search video_search
        brave_web_search brave_local_search brave_news_search brave_image_search brave_video_search""", unset="search"),
    Family("perplexity", read="search ask research reason perplexity_ask perplexity_search perplexity_research"),
    Family("context7", read="resolve_library_id get_library_docs query_docs"),
    Family(
        "browser playwright puppeteer chrome chrome_devtools browser_use web_browser",
        read="""snapshot screenshot take_screenshot take_snapshot get_text get_content get_html extract_content
            get_page_text read_page scroll wait wait_for console_messages network_requests tabs_list list_pages
            get_state find request_user browser_snapshot browser_take_screenshot browser_console_messages
            browser_network_requests browser_wait_for browser_resize list_console_messages list_network_requests""",
        write="close browser_close close_page",
        send="""navigate goto open new_page navigate_back navigate_forward back forward reload tabs tab_new tab_select
            click double_click hover drag type fill fill_form select_option press_key press file_upload upload_file
            handle_dialog submit evaluate run_code execute_script install browser_navigate browser_navigate_back
            browser_tabs browser_click browser_hover browser_drag browser_type browser_fill_form browser_select_option
            browser_press_key browser_file_upload browser_handle_dialog browser_evaluate browser_run_code
            browser_install navigate_page evaluate_script puppeteer_navigate puppeteer_click puppeteer_fill
            puppeteer_select puppeteer_hover puppeteer_evaluate puppeteer_screenshot""",
        unset="snapshot", url_fields="url",
        sends="""actions action_list steps commands text keys key value values element_action selector_action function
            function_declaration instruction instructions task goal prompt""",
    ),
    Family(
        "computer computer_use", read="screenshot cursor_position wait zoom scroll mouse_move",
        send="""key hold_key type left_click right_click middle_click double_click triple_click left_click_drag
            left_mouse_down left_mouse_up click drag keypress""",
        operation_fields="action",
    ),
    Family(
        "gmail google_mail mail email outlook ms_mail microsoft_mail imap fastmail email_read",
        read="""list get read search list_messages get_message read_message search_messages search_threads get_thread
            list_threads read_thread list_labels list_folders folders list_attachments get_attachment
            download_attachment download_attachments read_email search_emails list_emails list_drafts get_draft
            get_profile list_email_labels""",
        write="draft create_draft update_draft draft_email draft_reply save_draft",
        send="""send reply reply_all forward send_email send_mail send_message send_draft reply_to_email reply_to_thread
            forward_email move archive mark_read mark_unread modify modify_email modify_labels label add_label
            remove_label create_label update_label label_thread unlabel_thread batch_modify_emails create_filter
            unsubscribe""",
        money="""delete trash delete_email delete_message trash_message trash_thread delete_thread batch_delete
            batch_delete_emails delete_label delete_draft delete_filter empty_trash flag""",
        recipients=_MAIL_PEOPLE, sends="send send_now send_immediately send_at schedule_send",
    ),
    Family("email_send smtp sendgrid mailgun postmark resend ses", send="send send_email send_mail send_batch",
           recipients=_MAIL_PEOPLE),
    Family(
        "calendar google_calendar gcal outlook_calendar ms_calendar caldav",
        read="""list get search list_events get_event events_list events_get search_events list_calendars
            calendar_list free_busy get_freebusy query_freebusy find_free_time suggest_time find_meeting_times
            list_colors get_current_time""",
        send=f"""{_CREATES_EVENT} quick_add update update_event patch_event events_update events_patch move_event invite
            add_attendees respond respond_to_event accept decline_event tentative""",
        money="delete delete_event events_delete cancel cancel_event clear delete_calendar",
        recipients="attendees invitees guests participants emails",
        reaches_nobody=(
            Nobody(
                operations=frozenset(_keys(_CREATES_EVENT)),
                empty=frozenset(_keys("attendees invitees guests participants attendee_emails emails")),
                equal={"calendarid": frozenset(("", "primary"))},
                only=frozenset(_keys("""summary title subject name description body notes location start end start_time
                    end_time start_date end_date date time time_zone timezone duration all_day reminders color color_id
                    recurrence operation action command""")),
            ),
        ),
    ),
    Family("contacts google_contacts people", read="list get search find", send="create update add merge",
           money="delete remove"),
    Family(
        "tasks google_tasks todoist ticktick",
        read="list get search list_tasks get_task get_tasks find_tasks list_projects get_projects task_lists",
        send="create update complete reopen add_task create_task update_task complete_task move_task add_comment",
        money="delete delete_task remove_task clear",
    ),
    Family("task_manager", read="list get status create update complete delete"),
    Family(
        "slack slack_bot",
        read="""list_channels channels_list get_channel_history channel_history conversations_history
            conversations_replies get_thread_replies read_channel read_thread get_users list_users users_list get_user
            get_user_profile read_user_profile search search_messages conversations_search_messages search_public
            search_channels search_users get_permalink""",
        send="""send send_message post post_message chat_post_message reply reply_to_thread send_message_draft update
            update_message chat_update add_reaction remove_reaction reactions_add schedule_message
            chat_schedule_message conversations_add_message upload_file files_upload create_channel invite
            invite_to_channel join_channel leave_channel archive_channel rename_channel set_topic pin_message open_dm
            create_canvas update_canvas""",
        money="delete delete_message chat_delete delete_file files_delete delete_canvas",
        recipients=_CHAT_PLACES,
    ),
    Family(
        "discord discord_bot discord_action discord_send",
        read="""list get download read_messages get_messages list_channels list_guilds list_members get_server_info
            get_user get_channel search_messages""",
        send="""send send_message post reply edit_message add_reaction remove_reaction create_channel create_thread
            create_invite send_dm pin_message add_role remove_role timeout_member kick_member ban_member""",
        money="delete delete_message delete_channel bulk_delete purge delete_messages",
        recipients=_CHAT_PLACES,
    ),
    Family(
        "telegram telegram_bot telegram_send",
        read="get_me get_updates get_chat get_chats list_chats get_messages search_messages get_chat_member get_file",
        send="""send send_message send_photo send_document send_media send_voice send_poll reply reply_to_message
            forward_message copy_message edit_message edit_message_text pin_chat_message set_reaction
            invite_to_chat leave_chat ban_chat_member""",
        money="delete delete_message delete_messages delete_chat",
        recipients=_CHAT_PLACES,
    ),
    Family(
        "teams microsoft_teams ms_teams",
        read="""list_teams list_channels list_chats get_chat get_messages list_messages get_thread read_thread
            list_members search_messages""",
        send="send send_message post_message reply reply_to_message start_thread create_chat create_channel add_member",
        money="delete delete_message delete_channel",
        recipients=_CHAT_PLACES,
    ),
    Family(
        "whatsapp whatsapp_send whatsapp_business twilio sms signal matrix mattermost",
        read="list_chats get_chat list_messages get_message search_contacts list_templates get_url download",
        send="send send_message send_file send_audio_message send_media send_template send_sms make_call reply react",
        money="delete delete_message media_delete",
        recipients=_CHAT_PLACES + " phone phone_number number",
    ),
    Family(
        "twitter bluesky mastodon linkedin reddit facebook instagram social",
        read="search user get_user get_timeline get_post get_posts get_tweet search_posts search_tweets get_profile",
        send="""tweet post create_post create_tweet reply retweet quote like unlike follow unfollow repost share comment
            send_message send_dm""",
        money="delete delete_post delete_tweet remove_post",
    ),
    Family(
        "github github_mcp github_action gh_api gitlab bitbucket",
        read="""get_me get_issue list_issues search_issues issue_read get_issue_comments list_issue_types get_label
            list_label list_labels get_pull_request list_pull_requests search_pull_requests pull_request_read
            get_pull_request_files get_pull_request_diff get_pull_request_status get_pull_request_comments
            get_pull_request_reviews get_repo get_repository list_repos list_repositories search_repositories
            search_code search_users get_file_contents get_commit list_commits list_branches get_branch list_tags
            get_tag list_releases get_release get_latest_release get_release_by_tag list_workflows list_workflow_runs
            get_workflow_run get_job_logs list_workflow_jobs list_notifications get_notification_details list_gists
            get_gist list_discussions get_discussion get_discussion_comments list_code_scanning_alerts
            get_code_scanning_alert list_dependabot_alerts get_dependabot_alert get_repository_tree list_starred
            get_merge_request list_merge_requests get_project list_projects get_team_members get_teams""",
        write="repo_clone clone",
        send="""create_issue update_issue issue_write close_issue reopen_issue add_issue_comment create_issue_comment
            comment add_comment sub_issue_write assign_issue add_labels remove_label create_pull_request
            open_pull_request update_pull_request update_pull_request_branch
            merge_pull_request merge merge_branch close_pull_request
            create_pull_request_review pull_request_review_write add_comment_to_pending_review
            add_reply_to_pull_request_comment request_review request_copilot_review submit_review
            create_pending_pull_request_review submit_pending_pull_request_review create_repository fork_repository
            create_branch push push_files create_or_update_file create_commit create_tag create_release update_release
            publish_release create_gist update_gist star_repository unstar_repository dismiss_notification
            mark_all_notifications_read run_workflow dispatch_workflow rerun_workflow_run rerun_failed_jobs
            cancel_workflow_run create_merge_request merge_merge_request accept_merge_request create_note
            assign_copilot_to_issue""",
        money="""delete delete_repo delete_repository delete_file delete_branch delete_tag delete_release delete_comment
            delete_issue delete_label delete_workflow_run_logs delete_pending_pull_request_review delete_gist
            delete_project call custom api request""",
    ),
    Family(
        "linear jira atlassian confluence asana trello monday clickup shortcut notion zendesk intercom hubspot "
        "salesforce",
        read="""get list search find query get_issue list_issues search_issues get_page search_pages get_project
            list_projects get_team list_teams list_users get_user list_comments get_comments notion_search notion_fetch
            get_ticket list_tickets search_tickets get_contact search_contacts list_contacts get_card list_cards
            get_board list_boards search_jira_issues_using_jql get_jira_issue get_confluence_page
            search_confluence_using_cql""",
        send="""create update comment assign transition create_issue update_issue save_issue add_comment create_comment
            save_comment create_page update_page append_blocks notion_create_pages notion_update_page
            notion_create_comment create_task update_task create_ticket update_ticket reply_to_ticket create_contact
            update_contact create_card update_card move_card create_jira_issue edit_jira_issue transition_jira_issue
            add_comment_to_jira_issue create_confluence_page update_confluence_page""",
        money="delete archive remove delete_issue delete_page delete_task delete_card delete_ticket delete_contact",
    ),
    Family(
        "drive google_drive gdrive onedrive dropbox box sharepoint",
        read="""list get read search find download list_files get_file read_file search_files download_file
            read_file_content get_file_metadata list_recent_files get_file_permissions export""",
        send="upload create update share copy move rename upload_file create_file update_file create_folder share_file",
        money="delete trash remove delete_file empty_trash delete_folder",
        recipients="email emails share_with",
    ),
    Family(
        "sheets google_sheets excel airtable",
        read="read get list search get_values read_range list_records get_record search_records list_tables list_bases",
        send="write append update create update_values append_values write_range create_record update_record "
        "create_sheet",
        money="delete clear delete_record delete_records delete_sheet clear_values",
    ),
    Family(
        "s3 aws_s3 storage gcs minio",
        read="ls list list_objects list_buckets head head_object get_bucket_location",
        send="get get_object put upload put_object copy cp sync create_bucket presign download get_url",
        money="rm delete delete_object delete_objects delete_bucket rb s3_delete storage_rm purge",
    ),
    Family(
        "kubernetes k8s",
        read="""pods_list pods_list_in_namespace pods_get pods_log pods_top nodes_top resources_list resources_get
            events_list namespaces_list kubectl_get kubectl_describe kubectl_logs list_pods get_pods get_logs
            list_deployments list_services list_nodes get_events""",
        send="""pods_exec pods_run resources_create_or_update kubectl_apply kubectl_create kubectl_scale kubectl_patch
            kubectl_rollout kubectl_generic exec_in_pod apply scale port_forward rollout_restart helm_install
            install_helm_chart upgrade_helm_chart""",
        money="pods_delete resources_delete kubectl_delete helm_uninstall uninstall_helm_chart delete cleanup",
    ),
    Family(
        "cloudflare vercel netlify heroku_api digitalocean render railway fly",
        read="""list get list_projects get_project list_deployments get_deployment get_deployment_build_logs
            get_runtime_logs zones_list accounts_list dns_record_list workers_list list_services list_logs
            search_documentation search_cloudflare_documentation""",
        send="""deploy deploy_to_vercel create update redeploy promote rollback restart start stop dns_record_create
            dns_record_edit create_deployment set_env create_service update_service""",
        money="""delete remove destroy purge purge_cache delete_project dns_record_delete delete_service
            delete_deployment buy_domain call custom""",
    ),
    Family(
        "sentry datadog grafana pagerduty",
        read="""list get search list_issues get_issue get_issue_details search_issues search_events list_monitors
            query_metrics query_logs list_dashboards get_dashboard list_alerts list_incidents get_incident whoami
            find_organizations find_projects""",
        send="create update resolve acknowledge mute unmute update_issue create_monitor update_monitor create_incident",
        money="delete delete_monitor delete_dashboard",
    ),
    Family("git", read="status log diff diff_staged diff_unstaged show blame git_status git_log git_diff git_show "
           "git_diff_staged git_diff_unstaged", write="add commit git_add git_commit",
           send="push pull fetch clone checkout merge rebase git_push git_pull git_checkout",
           money="clean rm branch_delete delete_branch tag_delete delete_tag stash_drop stash_clear filter_branch",
           sends="output ext_diff textconv", spends="force force_with_lease mirror hard", reads="line",
           words="message path paths file files revision"),
    Family(
        "postgres postgresql pg mysql mariadb sqlite mssql sqlserver oracle duckdb clickhouse snowflake bigquery "
        "redshift databricks supabase neon planetscale cockroachdb database db sql_database",
        read="""list_tables list_schemas list_databases describe_table get_schema get_table_schema list_columns
            list_objects get_object_details list_dataset_ids list_table_ids get_dataset_info get_table_info
            list_extensions list_migrations list_branches list_projects get_logs get_advisors
            search_objects search_docs list_collections collection_schema""",
        write="append_insight",
        send="""create_table insert update insert_rows update_rows apply_migration create_branch merge_branch
            create_project deploy_edge_function restore_project pause_project""",
        reads="sql",
        money="delete drop drop_table delete_rows truncate delete_branch reset_branch drop_database delete_project",
        queries="""query execute run execute_sql run_sql sql_query run_query read_query write_query execute_query
            query_database select explain_query""",
    ),
    Family(
        "mongodb mongo redis",
        read="""find count list_databases list_collections collection_schema collection_indexes db_stats explain get
            hget hgetall lrange smembers zrange scan_keys type dbsize info""",
        send="""insert insert_one insert_many update update_one update_many create_collection create_index aggregate set
            hset lpush rpush sadd zadd publish expire rename""",
        money="""delete delete_one delete_many drop drop_collection drop_database drop_index del hdel lpop rpop srem
            zrem flushall flushdb unlink""",
        reads="line",
        words="key keys value values field fields message channel collection document documents filter pattern text",
    ),
    Family(
        "apify zapier ifttt make n8n",
        read="search_actors fetch_actor_details get_actor_run get_dataset_items list_zaps list_workflows get_workflow",
        send="run_workflow trigger_webhook run_zap create_workflow update_workflow",
        money="call_actor run_actor actor run",
    ),
    *(Family(name, default=MONEY) for name in sorted({*PAYMENT_PROVIDERS, "square", "dodo"})),
    Family(
        "shopify woocommerce ebay amazon", default=MONEY,
        read="list_products get_product search_products list_orders get_order get_inventory search_shop_catalog",
        send="create_product update_product update_inventory fulfill_order",
    ),
)  # fmt: skip

# Commands. A rule covers them word for word or not at all.

SHELLS = """
    bash shell sh zsh fish powershell pwsh cmd terminal console exec exec_command execute execute_command execute_bash
    bash_command run run_bash run_command run_shell run_shell_command run_terminal_cmd run_terminal_command
    run_in_terminal run_terminal shell_command shell_exec shell_run local_shell unified_exec container_exec
    start_process process_start interact_with_process write_stdin send_input send_terminal_input ssh ssh_exec
    subprocess sandbox_exec
"""
CODES = """
    python python3 python_exec python_executor execute_python run_python python_repl python_interpreter ipython jupyter
    jupyter_execute execute_cell run_cell notebook_execute execute_code code_execution code_interpreter code_executor
    run_code run_code_snippet eval evaluate repl js node javascript javascript_exec javascript_executor
    typescript_executor run_javascript browser_evaluate browser_run_code execute_script apps_script rlm_agent
    claude_code claude_code_agent codex codex_agent mobile_use_agent
"""
SQLS = """
    sql sql_query run_sql execute_sql sql_db_query query_sql run_query execute_query query_database read_query
    write_query query_db text_to_sql bq_query
"""
_SQL_TEXTS = "sql query queries statement statements sql_query command"
_SQL_BESIDE = """
    params parameters args values bindings limit max_rows row_limit database db schema dataset warehouse timeout
    timeout_ms read_only readonly analyze verbose explanation description reason operation action project project_id
"""
_SQL_WORDS = f"{_SQL_TEXTS} params parameters args values bindings explanation description reason"
_LINE_TEXTS = "command cmd args argv arguments command_line subcommand cli_command"
_LINE_BESIDE = "timeout timeout_ms description explanation reason"


def _each(groups: str, verbs: str) -> str:
    return "; ".join(f"{group.strip()} {verb}" for group in groups.split(";") for verb in verbs.split())


def _program(looks: str, options: str) -> Program:
    return Program(tuple(path.strip() for path in looks.split(";")), frozenset(options.split()))


_GCLOUD_GROUPS = """
    projects; compute instances; compute disks; compute networks; compute addresses; compute images; compute snapshots;
    compute firewall-rules; run services; run revisions; container clusters; functions; sql instances;
    iam service-accounts; storage buckets; pubsub topics; pubsub subscriptions; artifacts repositories; builds;
    dns managed-zones
"""
_AZ_GROUPS = """
    account; group; vm; aks; webapp; functionapp; storage account; resource; network vnet; network nsg; sql server;
    sql db; acr; keyvault; monitor activity-log; appservice plan
"""
PROGRAMS: Mapping[str, Program] = {
    # `plan` and `validate` run the providers and data sources of files that the agent may have written.
    "terraform": _program("version; state list; workspace list; workspace show; output", "-json -no-color -raw"),
    "kubectl": _program(
        """get; describe; logs; top; explain; version; api-resources; api-versions; cluster-info; events;
        config get-contexts; config current-context; auth can-i; rollout status; rollout history""",
        """-n --namespace -A --all-namespaces -o --output -l --selector --field-selector --sort-by --show-labels
        --no-headers --tail --since --previous -p -c --container --all-containers --limit -w --watch""",
    ),
    "aws": Program(
        ("? describe-", "? list-", "s3 ls", "sts get-caller-identity", "configure list"),
        None,
        never=("--en", "--cli-i", "--ca", "--no-ver", "--generate"),
    ),
    "gcloud": _program(
        f"""{_each(_GCLOUD_GROUPS, "list describe")}; config list; auth list; services list; compute zones list;
        compute regions list; storage ls; logging read; version; info""",
        """--project --region --zone --location --format --filter --limit --sort-by --page-size --uri --quiet -q
        --freshness --order""",
    ),
    "az": _program(
        f"{_each(_AZ_GROUPS, 'list show')}; version; account list-locations",
        "-g --resource-group -n --name -o --output --query --subscription --server --top",
    ),
    "helm": _program(
        "list; ls; status; history; version; get values; get manifest; get notes; get all",
        "-n --namespace -A --all-namespaces -o --output --revision -a --all --filter",
    ),
    "docker": _program(
        """ps; images; logs; inspect; version; info; container ls; image ls; volume ls; network ls; compose ps;
        compose ls; stats""",
        "-a --all -q --quiet --format --filter -f --tail --since --no-stream --no-trunc -n",
    ),
    "gh": _program(
        """pr list; pr view; pr status; pr diff; pr checks; issue list; issue view; issue status; repo view; repo list;
        run list; run view; release list; release view; workflow list; workflow view; label list; search issues;
        search prs; search repos; search code; auth status""",
        """-R --repo -s --state -L --limit --json -q --jq -l --label -A --author -a --assignee --comments -S --search
        --branch --log --log-failed""",
    ),
    **{
        name: Program()
        for name in ("pulumi", "heroku", "flyctl", "wrangler", "gsutil", "doctl", "eksctl", "podman", "nomad", "vault")
    },
}
PROGRAM_NAMES: Mapping[str, str] = {
    "terraform": "tofu opentofu terraform_cli",
    "aws": "aws_cli call_aws",
    "gcloud": "gcloud_cli run_gcloud_command",
    "az": "az_cli azure_cli",
    "kubectl": "run_kubectl execute_kubectl kubectl_command",
    "gh": "github_cli gh_cli",
}

# HTTP

METHODS: Mapping[str, Effect] = {
    **dict.fromkeys(("get", "head", "options", "post", "put", "patch"), SEND),
    "delete": MONEY,
}
HTTPS = """
    http http_request http_client http_call request requests api_request api_call make_request make_http_request
    rest_request rest_api call_api proxy_request curl webhook http_tool fetch_api axios httpx
"""
FETCHES = """
    fetch fetch_url url_fetch web_fetch fetch_webpage fetch_page fetch_html fetch_markdown fetch_json fetch_txt read_url
    read_web_page read_url_content read_website get_url open_url browse browse_url browse_page visit_url visit_page
    visit_webpage visit_website scrape scrape_url scrape_page web_scraper http_scraper firecrawl_scrape crawl crawl_url
    web_crawler crawlee_scraper url_context link_reader download download_url file_downloader navigate goto
"""
URL_FIELDS = "url urls uri endpoint"

# Tools that pass on whatever call they are given: to somebody's server, or to the agent's own tools.
PASSING = """
    use_mcp_tool call_mcp_tool mcp_call_tool run_mcp_tool execute_mcp_tool invoke_mcp_tool mcp_tool mcp_proxy use_tool
    call_tool invoke_tool execute_tool run_tool tool_call composio_execute_tool composio_multi_execute_tool
"""
BUNDLING = """
    multi_tool_use multi_tool_use_parallel parallel_tools parallel_tool_calls batch_tool batch_tools batch_tool_calls
    call_function
"""


def _rows() -> Iterator[tuple[str, Row]]:
    yield from _tools()
    for family in FAMILIES:
        yield from _family(family)
    yield from _commands()
    methods = dict.fromkeys(METHOD_FIELDS, METHODS)
    http = Row(
        SEND, fields=methods, defaults={"method": "get"}, url_fields=_keys(URL_FIELDS), spends=_set(_DELETES),
        reads="http",
    )  # fmt: skip
    for name in _keys(HTTPS + FETCHES):
        yield name, http
    # Without a method this one posts, be it a question or a mutation.
    yield "graphql", replace(http, defaults={"method": "post"})
    yield "graphqlrequest", replace(http, defaults={"method": "post"})
    for name in _keys(PASSING):
        yield name, Row(SEND, "mcp", reads="calls", command=True)
    for name in _keys(BUNDLING):
        yield name, Row(SEND, reads="calls", command=True)
    for name in ("aws", "gcloud"):
        for operation in _keys(WHOLE_API):
            yield name + operation, Row(MONEY, name, command=True)


def _tools() -> Iterator[tuple[str, Row]]:
    telling = _set(TELLING)
    for effect, names in TOOLS.items():
        for name in _keys(names):
            people = _keys(_MAIL_PEOPLE if "mail" in name else _CHAT_PLACES) if effect is SEND else ()
            sends = f"{_ADDRESSES} {_MORE_WORDS} {_COMMANDS}" if effect is READ else ""
            words = _WORDS if effect is READ and name not in telling else ""
            amount = _AMOUNT if effect is MONEY else None
            yield name, Row(effect, recipients=people, amount=amount, sends=_set(sends), words=_set(words))
    for name in _keys("apply_patch apply_diff patch patch_file git_apply"):
        yield name, Row(WRITE, reads="patch")
    # A sandboxed interpreter that reaches only what it is given.
    capabilities = {"httpget": SEND, "workspacewrite": WRITE, "workspaceread": READ}
    for name in _keys("monty monty_executor"):
        yield (
            name,
            Row(READ, fields={"capabilities": capabilities}, defaults={"capabilities": "workspaceread"}, command=True),
        )


def _family(family: Family) -> Iterator[tuple[str, Row]]:
    listed = {READ: family.read, WRITE: family.write, SEND: family.send, MONEY: family.money}
    row = Row(
        family.default,
        operations=dict.fromkeys(_keys(WHOLE_API), MONEY)
        | {name: effect for effect, names in listed.items() for name in _keys(names)},
        operation_fields=_keys(family.operation_fields),
        defaults={"operation": key_of(family.unset)} if family.unset else {},
        url_fields=_keys(family.url_fields),
        recipients=_keys(family.recipients),
        amount=_AMOUNT if family.default is MONEY else None,
        reaches_nobody=family.reaches_nobody,
        sends=_set(f"{family.sends} {_MORE_TO_DO} {_MORE_WORDS} {_ADDRESSES if family.fetches else ''}"),
        spends=_set(f"{family.spends} {_DELETES}"),
        words=_set(family.words),
        reads=family.reads,
        texts=_keys({"": "", "sql": _SQL_TEXTS}.get(family.reads, _LINE_TEXTS)),
        beside=frozenset(_keys(_SQL_BESIDE)) if family.reads == "sql" else frozenset(),
    )
    for name in _keys(family.names):
        yield name, row
        for query in _keys(family.queries):
            yield name + query, _sql(name)


def _commands() -> Iterator[tuple[str, Row]]:
    for name in _keys(SHELLS):
        yield name, Row(SEND, reads="shell", command=True)
    for name in _keys(CODES):
        yield name, Row(SEND, reads="code", command=True)
    for name in _keys(SQLS):
        yield name, _sql("")
    for program in PROGRAMS:
        row = Row(READ, reads=program, texts=_keys(_LINE_TEXTS), beside=frozenset(_keys(_LINE_BESIDE)),
                  spends=_set(_DELETES), command=True)  # fmt: skip
        for name in (program, *_keys(PROGRAM_NAMES.get(program, ""))):
            yield name, row


def _set(text: str) -> frozenset[str]:
    return frozenset(_keys(text))


def _sql(family: str) -> Row:
    return Row(READ, family, reads="sql", texts=_keys(_SQL_TEXTS), beside=_set(_SQL_BESIDE), words=_set(_SQL_WORDS),
               command=True)  # fmt: skip


SHIPPED = Tables(rows=dict(_rows()), programs=PROGRAMS)
