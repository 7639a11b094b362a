"""placet.yaml: what is taken, every refusal with its line, and what applying it would change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.database import Database
from adapters.directory_changes import changes
from adapters.directory_file import DirectoryError, read_directory
from adapters.directory_written import written
from adapters.migrate import migrate
from core.approvals import Destination, Escalation, Mode
from core.effects_file import tables_from
from core.people import place_of, route_from

FILE = """\
people:
  dana: {name: Dana Reyes, identities: {telegram: 1001, slack: T01/U01, discord: 4201}}
  ola:  {name: Ola Berg, identities: {slack: T01/U02}}
  kim:  {name: Kim Sato, identities: {discord: 4203}}
roles:
  admin: [admin, approvals:view, approvals:answer, approvals:delegate]
  approver: [approvals:view, approvals:answer]
  watcher: [approvals:view]
members:
  admin: [kim]
  approver: [dana, ola, kim]
agents:
  billing:
    owner: dana
    mode: outside
    runs: [{tool: stripe.refund, activity: refund, task_queue: billing}]
routes:
  - match: {agent: billing, effect: money}
    ask: [role:approver]
    at: [telegram:-1001234/31, dm]
    timeout: 24h
    remind: 4h            # before expiry
"""


def changed(old: str, new: str) -> str:
    assert FILE.count(old) == 1, f"{old!r} must stand in the file once"
    return FILE.replace(old, new)


def refusal_of(text: str) -> tuple[int, str]:
    with pytest.raises(DirectoryError) as caught:
        read_directory(text)
    assert str(caught.value) == f"line {caught.value.line}: {caught.value.problem}"
    assert "\n" not in str(caught.value)
    return caught.value.line, caught.value.problem


GROUPS = 'watcher: {permissions: [approvals:view], groups: [slack:T01/S0123, "discord:80/81"]}'
EVERYTHING = (
    (
        changed("watcher: [approvals:view]", GROUPS)
        .replace(
            "timeout: 24h", "needed: 2\n    four_eyes: true\n    escalate: {after: 2h, ask: [role:admin], at: [dm]}"
        )
        .replace("mode: outside", "mode: everything")
        .replace("name: Ola Berg", "name: Ola Berg, language: de")
    )
    + """\
chats:
  slack:T01/C01: {language: en}
effects:
  tools: {acme.lookup: read}
  operations:
    crm: {find: read, mail: send}
  fields: {crm: {shared: {"true": send, "false": write}}}
  commands: [acme.run]
  reaches_nobody: {crm: [{operations: [mail], empty: [to]}]}
"""
)


def test_the_file_is_read_whole() -> None:
    assert read_directory(FILE) == {
        "people": {
            "dana": {"name": "Dana Reyes", "identities": {"telegram": "1001", "slack": "T01/U01", "discord": "4201"}},
            "ola": {"name": "Ola Berg", "identities": {"slack": "T01/U02"}},
            "kim": {"name": "Kim Sato", "identities": {"discord": "4203"}},
        },
        "chats": {},
        "roles": {
            "admin": ["admin", "approvals:view", "approvals:answer", "approvals:delegate"],
            "approver": ["approvals:view", "approvals:answer"],
            "watcher": ["approvals:view"],
        },
        "members": {"admin": ["kim"], "approver": ["dana", "ola", "kim"]},
        "groups": {},
        "agents": {
            "billing": {
                "owner": "dana",
                "mode": "outside",
                "runs": [{"tool": "stripe.refund", "activity": "refund", "task_queue": "billing"}],
            }
        },
        "routes": [
            {
                "match": {"agent": "billing", "effect": "money"},
                "ask": ["role:approver"],
                "at": ["telegram:-1001234/31", "dm"],
                "needed": 1,
                "four_eyes": False,
                "timeout_s": 86400,
                "remind_s": 14400,
                "escalate": None,
            }
        ],
        "effects": {},
    }


def test_what_may_be_left_out_may_be_left_out() -> None:
    text = "people: {kim: }\nroles: {r: [approvals:answer]}\nmembers: {r: [kim]}\nroutes:\n- {ask: [kim], at: [dm]}\n"
    read = read_directory(text)
    assert read["people"] == {"kim": {"name": "kim", "identities": {}}}
    assert read["agents"] == {}
    route = {"match": {}, "ask": ["kim"], "at": ["dm"], "needed": 1, "four_eyes": False}
    assert read["routes"] == [{**route, "timeout_s": None, "remind_s": None, "escalate": None}]
    assert read_directory("people: {}\nroutes:\n")["routes"] == []


def test_people_and_chats_have_languages() -> None:
    text = changed("name: Ola Berg", "name: Ola Berg, language: de")
    read = read_directory(
        f"chats: {{'telegram:-1001234/31': {{language: de}}, slack:T01/C01: {{language: en}}}}\n{text}"
    )
    assert read["people"]["ola"] == {"name": "Ola Berg", "identities": {"slack": "T01/U02"}, "language": "de"}
    assert read["chats"] == {"telegram:-1001234/31": {"language": "de"}, "slack:T01/C01": {"language": "en"}}


@pytest.mark.parametrize(
    ("chats", "told"),
    [
        ("telegram:-1001234: {language: deutsch}", "unknown language 'deutsch'; there are de, en"),
        ("telegram:-1001234: {language: dee}", "unknown language 'dee'; did you mean de?"),
        ("telegram:-1001234: {}", "chat telegram:-1001234 needs a language"),
        ("telegram:-1001234: de", "chat telegram:-1001234 must be a mapping (name: value)"),
        ("telegram:-1001234: {lang: de}", "unknown key of chat telegram:-1001234 'lang'; did you mean language?"),
        ("billing: {language: de}", "'billing' is no place: write dm, telegram[@bot]:<chat>[/<topic>], "
         "slack:[<team>/]<channel> or discord[@bot]:<channel>[/<thread>]"),
        ("dm: {language: de}", "dm is nobody's chat; give the person a language"),
        ("telegram@acme_bot:-1001234: {language: de}",
         "a chat speaks one language with every bot: leave @acme_bot out"),
    ],
)  # fmt: skip
def test_a_chats_language_is_refused_with_the_reason(chats: str, told: str) -> None:
    assert refusal_of(f"{FILE}chats:\n  {chats}\n") == (24, told)


def test_another_platform_writes_its_ids_as_it_likes() -> None:
    text = """
people: {kim: {identities: {telegram: 1, mattermost: acme/qmd5oqtwoibz8}}}
roles: {oncall: {permissions: [approvals:answer], groups: ["mattermost:acme/ops"]}}
routes:
  - {ask: [role:oncall], at: [mattermost:town-square, "mattermost@acme:qmd5/x1"]}
"""
    read = read_directory(text, {"telegram", "mattermost"})
    assert read["people"]["kim"]["identities"] == {"telegram": "1", "mattermost": "acme/qmd5oqtwoibz8"}
    assert read["groups"] == {"oncall": ["mattermost:acme/ops"]}
    assert place_of(read["routes"][0]["at"][1]) == Destination("mattermost", "acme", "qmd5", "x1")
    assert refusal_of(text) == (2, "unknown platform 'mattermost'; there are telegram, slack, discord")
    with pytest.raises(
        DirectoryError, match=r"is no place: write mattermost\[@bot\]:<chat>\[/<thread>\], by their ids"
    ):
        read_directory(text.replace("mattermost:town-square", '"mattermost:town square"'), {"telegram", "mattermost"})
    with pytest.raises(DirectoryError, match=r"or mattermost\[@bot\]:<chat>\[/<thread>\]$"):
        read_directory(text.replace("mattermost:town-square", "mattermots:x"), {"telegram", "mattermost"})


def test_a_persons_language_is_refused_with_the_reason() -> None:
    wrong = changed("name: Ola Berg", "name: Ola Berg, language: fr")
    assert refusal_of(wrong) == (3, "unknown language 'fr'; there are de, en")


def test_sections_come_in_any_order() -> None:
    head, routes = FILE.split("routes:\n")
    assert read_directory("routes:\n" + routes + head) == read_directory(FILE)


@pytest.mark.parametrize(
    ("written", "seconds"), [("10s", 10), ("30s", 30), ("90m", 5400), ("24h", 86400), ("7d", 604800), ("720h", 2592000)]
)
def test_durations(written: str, seconds: int) -> None:
    text = changed("    timeout: 24h\n    remind: 4h            # before expiry\n", f"    timeout: {written}\n")
    assert read_directory(text)["routes"][0]["timeout_s"] == seconds


@pytest.mark.parametrize(
    "place",
    ["dm", "telegram:1001", "telegram:-1001234", "telegram:-1001234/31", "telegram@placet_bot:-1001234/31",
     "discord:600", "discord:600/601", "discord@placet:600", "discord@8000000001:600"],
)  # fmt: skip
def test_places(place: str) -> None:
    assert read_directory(changed("telegram:-1001234/31, dm", place))["routes"][0]["at"] == [place]


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        # Unknown keys
        ("people:", "peeple:", 1, "unknown key of the file 'peeple'; did you mean people?"),
        ("name: Ola Berg", "nam: Ola", 3, "unknown key of person ola 'nam'; did you mean name?"),
        ("slack: T01/U02", "matrix: x", 3, "unknown platform 'matrix'"),
        ("    mode: outside", "    moed: outside", 15, "did you mean mode?"),
        ("activity: refund", "activty: refund", 16, "unknown key of a run 'activty'; did you mean activity?"),
        ("effect: money", "efect: money", 18, "unknown key of match 'efect'; did you mean effect?"),
        ("    timeout: 24h", "    time_out: 24h", 21, "unknown key of a route 'time_out'; did you mean timeout?"),
        # Dangling names
        ("admin: [kim]", "admin: [kin]", 10, "unknown person 'kin'; did you mean kim?"),
        ("  admin: [kim]", "  admn: [kim]", 10, "unknown role 'admn'; did you mean admin?"),
        ("watcher: [approvals:view]", "watcher: [approvals:veiw]", 8, "unknown permission 'approvals:veiw'"),
        ("owner: dana", "owner: dan", 14, "unknown person 'dan'; did you mean dana?"),
        ("agent: billing", "agent: biling", 18, "unknown agent 'biling'; did you mean billing?"),
        ("effect: money", "effect: monye", 18, "unknown effect 'monye'; did you mean money?"),
        ("ask: [role:approver]", "ask: [role:aprover]", 19, "did you mean role:approver?"),
        ("ask: [role:approver]", "ask: [dana, zed]", 19, "unknown person or role 'zed'"),
        # Wrong types
        ("  admin: [kim]", "  admin: kim", 10, "members of admin must be a list"),
        ("name: Ola Berg", "name: [Ola]", 3, "name must be text"),
        ("name: Ola Berg", "name: 12", 3, "name must be text (write it in quotes: '12')"),
        ("name: Ola Berg", "name: ''", 3, "name must be one line of 1 to 200 characters"),
        ("identities: {slack: T01/U02}", "identities: [1]", 3, "identities must be a mapping"),
        ("    mode: outside", "    mode: true", 15, "mode must be text"),
        ("ask: [role:approver]", "ask: role:approver", 19, "ask must be a list"),
        ("ask: [role:approver]", "ask: []", 19, "ask must name at least one"),
        ("at: [telegram:-1001234/31, dm]", "at:", 20, "at must name at least one"),
        ("at: [telegram:-1001234/31, dm]", "at: [telegram: -1001234]", 20, "a place must be text"),
        ("timeout: 24h", "timeout: [24h]", 21, "timeout must be text"),
        ("timeout: 24h", "needed: two", 21, "needed must be a whole number"),
        ("timeout: 24h", "needed: 0", 21, "needed must be a whole number from 1"),
        ("timeout: 24h", "four_eyes: sometimes", 21, "four_eyes must be true or false"),
        ("  kim:  {", "  true:  {", 4, "a key of people must be text"),
        ("  kim:  {", "  kim sato:  {", 4, "'kim sato' is no name of a person"),
        ("  kim:  {", "  auto:  {", 4, "nobody can be called auto: that is what Placet calls"),
        ("  kim:  {", "  admin:  {", 4, "nobody can be called admin: that is what Placet calls"),
        # What is missing
        ("    owner: dana\n", "", 13, "agent billing needs an owner"),
        ("tool: stripe.refund, ", "", 16, "a run needs tool"),
        ("    at: [telegram:-1001234/31, dm]\n", "", 18, "a route needs at"),
        # What is there twice
        ("  ola:  {", "  dana:  {", 3, "'dana' is there twice in people; first on line 2"),
        ("discord: 4203", "discord: 4201", 4, "this discord identity is already dana's, on line 2"),
        ("telegram:-1001234/31, dm", "dm, dm", 20, "the place dm is there twice"),
        ("  admin: [kim]", "  admin: [kim, kim]", 10, "kim is there twice in members of admin"),
        # Identities
        ("telegram: 1001", "telegram: '@dana'", 2, "the telegram identity of dana must be a positive whole number"),
        ("telegram: 1001", "telegram: -1001", 2, "the telegram identity of dana must be a positive whole number"),
        ("telegram: 1001", "telegram: 10.5", 2, "identity telegram must be text"),
        ("slack: T01/U02", "slack: U02", 3, "the slack identity of ola must be <team>/<user>"),
        # Durations
        ("timeout: 24h", "timeout: 24", 21, "timeout must be a number with s, m, h or d"),
        ("timeout: 24h", "timeout: 9s", 21, "timeout must be from 10s to 720h"),
        ("timeout: 24h", "timeout: 31d", 21, "timeout must be from 10s to 720h"),
        ("remind: 4h ", "remind: 24h", 22, "remind counts back from the expiry and must be shorter than timeout"),
        # Places
        ("telegram:-1001234/31", "telegrm:-1001234", 20, "'telegrm:-1001234' is no place: write dm, "
         "telegram[@bot]:<chat>[/<topic>], slack:[<team>/]<channel> or discord[@bot]:<channel>[/<thread>]"),
        ("telegram:-1001234/31", "telegram:@placet", 20, "the chat as its number"),
        ("telegram:-1001234/31", "telegram:-1001234/general", 20, "is no place"),
        ("telegram:-1001234/31", "telegram:-1001234/0", 20, "is no place"),
        ("telegram:-1001234/31", "discord:-600", 20, "write discord[@bot]:<channel>[/<thread>]"),
        ("telegram:-1001234/31", "discord:billing", 20, "'discord:billing' is no place"),
        ("telegram:-1001234/31", "discord:600/refunds", 20, "both as their numbers"),
        ("telegram:-1001234/31", "discord@a b:600", 20, "is no place"),
        ("telegram:-1001234/31", "discord", 20, "is no place"),
        ("task_queue: billing", "task_queue: placet-bots", 16, "the task queue placet-bots is Placet's own"),
        # Quorums that cannot be met
        ("  approver: [dana, ola, kim]\n", "  watcher: [dana]\n", 19,
         "nobody of role:approver holds approvals:answer"),
        ("ask: [role:approver]", "ask: [role:watcher]", 19, "nobody of role:watcher holds approvals:answer"),
        ("timeout: 24h", "needed: 4", 21,
         "needed is 4, but of role:approver only dana, ola, kim hold approvals:answer"),
        ("    ask: [role:approver]\n", "    needed: 2\n    ask: [role:admin, kim]\n", 19,
         "needed is 2, but of role:admin, kim only kim holds approvals:answer"),
        ("timeout: 24h", "needed: 9\n    escalate: {after: 8h, ask: [role:admin], at: [dm]}", 21,
         "needed is 9, but of"),
        # Escalation
        ("timeout: 24h", "escalate: 8h", 21, "escalate must be a mapping"),
        ("timeout: 24h", "escalate: {afer: 8h, ask: [kim], at: [dm]}", 21,
         "unknown key of escalate 'afer'; did you mean after?"),
        ("timeout: 24h", "escalate: {ask: [kim], at: [dm]}", 21, "escalate needs after"),
        ("timeout: 24h", "escalate: {after: 8h, at: [dm]}", 21, "escalate needs ask"),
        ("timeout: 24h", "escalate: {after: 8h, ask: [kim]}", 21, "escalate needs at"),
        ("timeout: 24h", "escalate:\n      after: 8\n      ask: [kim]\n      at: [dm]", 22,
         "after must be a number with"),
        ("timeout: 24h", "escalate:\n      after: 8h\n      ask: [kin]\n      at: [dm]", 23,
         "unknown person or role 'kin'; did you mean kim?"),
        ("timeout: 24h", "escalate:\n      after: 8h\n      ask: [kim]\n      at: [dn]", 24, "'dn' is no place"),
        ("timeout: 24h", "escalate:\n      after: 8h\n      ask: []\n      at: [dm]", 23, "ask must name at least one"),
        ("timeout: 24h", "escalate: {after: 8h, ask: [role:watcher], at: [dm]}", 21,
         "nobody of role:watcher holds approvals:answer, so the escalation could not help"),
        ("timeout: 24h", "timeout: 8h\n    escalate: {after: 8h, ask: [kim], at: [dm]}", 22,
         "escalate counts from the ask and must come before the timeout"),
        ("timeout: 24h", "escalate: {after: 8h, ask: [role:approver], at: [dm]}", 21,
         "escalate asks nobody and nowhere that the route does not ask already"),
        # Roles that platform groups give
        ("watcher: [approvals:view]", "watcher: approvals:view", 8,
         "role watcher must be a list of permissions, or a mapping with permissions and groups"),
        ("watcher: [approvals:view]", "watcher: {permission: [admin]}", 8, "did you mean permissions?"),
        ("watcher: [approvals:view]", "watcher: {groups: [slack:T01/S01]}", 8, "role watcher needs permissions"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:veiw]}", 8, "unknown permission"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:view], groups: slack:T01/S01}", 8,
         "groups of watcher must be a list"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:view], groups: [slack:S01]}", 8,
         "'slack:S01' is no group: write slack:<team>/<user group>, such as slack:T01/S0123, or "
         "discord:<server>/<role>, such as discord:80/81"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:view], groups: [discord:80]}", 8,
         "is no group"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:view], groups: [discord:80/@ops]}", 8,
         "is no group"),
        ("watcher: [approvals:view]", "watcher: {permissions: [approvals:view], groups: [telegram:-1001234]}", 8,
         "is no group"),
        ("watcher: [approvals:view]",
         "watcher: {permissions: [approvals:view], groups: [slack:T01/S01, slack:T01/S01]}", 8,
         "slack:T01/S01 is there twice in groups of watcher"),
        # Other forms of a place
        ("telegram:-1001234/31", "slack:T01/C0123/9", 20, "is no place: write slack:[<team>/]<channel>"),
        ("telegram:-1001234/31", "slack@T01:C0123/9", 20, "is no place: write slack:[<team>/]<channel>"),
        ("telegram:-1001234/31", "slack:billing", 20, "'slack:billing' is no place: write slack:[<team>/]<channel>"),
        ("mode: outside", "mode: money-only", 15, "unknown mode 'money-only'; did you mean money_only?"),
        ("mode: outside", "mode: never", 15, "unknown mode 'never'; there are outside, everything, money_only"),
    ],
)  # fmt: skip
def test_every_refusal_names_its_line(old: str, new: str, line: int, told: str) -> None:
    found, problem = refusal_of(changed(old, new))
    assert told in problem
    assert found == line


@pytest.mark.parametrize("mode", ["outside", "everything", "money_only"])
def test_an_agent_has_a_mode(mode: str) -> None:
    assert read_directory(changed("mode: outside", f"mode: {mode}"))["agents"]["billing"]["mode"] == mode


def test_an_agent_without_a_mode_leaves_it_to_the_commands() -> None:
    assert "mode" not in read_directory(changed("    mode: outside\n", ""))["agents"]["billing"]


def test_a_route_has_a_quorum_four_eyes_and_an_escalation() -> None:
    asked = "needed: 2\n    four_eyes: true\n    escalate: {after: 8h, ask: [role:admin], at: [dm, slack:T01/C01]}"
    (route,) = read_directory(changed("timeout: 24h", asked))["routes"]
    assert (route["needed"], route["four_eyes"]) == (2, True)
    assert route["escalate"] == {"after_s": 28800, "ask": ["role:admin"], "at": ["dm", "slack:T01/C01"]}
    escalation = Escalation(28800, ("role:admin",), ("dm", "slack:T01/C01"))
    assert (route_from(route).needed, route_from(route).four_eyes) == (2, True)
    assert route_from(route).escalate == escalation


def test_an_escalation_may_bring_the_same_people_to_another_place() -> None:
    text = changed("timeout: 24h", "escalate: {after: 8h, ask: [role:approver], at: [slack:T01/C01]}")
    assert read_directory(text)["routes"][0]["escalate"]["at"] == ["slack:T01/C01"]


def test_a_quorum_counts_each_person_once() -> None:
    two_ways = changed("ask: [role:approver]", "ask: [role:approver, kim, dana]")
    assert read_directory(two_ways.replace("timeout: 24h", "needed: 3"))["routes"][0]["needed"] == 3
    assert refusal_of(two_ways.replace("timeout: 24h", "needed: 4"))[0] == 21


def test_a_role_may_be_given_by_groups_of_the_platforms() -> None:
    read = read_directory(changed("watcher: [approvals:view]", GROUPS))
    assert read["roles"]["watcher"] == ["approvals:view"]
    assert read["groups"] == {"watcher": ["slack:T01/S0123", "discord:80/81"]}
    no_groups = changed("watcher: [approvals:view]", "watcher: {permissions: [approvals:view]}")
    assert read_directory(no_groups) == read_directory(FILE)


@pytest.mark.parametrize(
    ("ask", "role", "needed"),
    [
        # Whoever is in the group is asked, and may answer.
        ("role:oncall", "{permissions: [approvals:answer], groups: [slack:T01/S01]}", 3),
        # Those who are asked by name may be in the group.
        ("zoe, kim", "{permissions: [approvals:answer], groups: [slack:T01/S01]}", 2),
        # Whoever is in the group is asked, and may answer by another role.
        ("role:oncall", "{permissions: [approvals:view], groups: [slack:T01/S01]}", 2),
    ],
)
def test_who_is_in_a_group_is_not_known_here_so_no_quorum_is_refused_for_it(ask: str, role: str, needed: int) -> None:
    text = f"""
people: {{kim: , ola: , zoe: }}
roles: {{approver: [approvals:answer], oncall: {role}}}
members: {{approver: [kim, ola]}}
routes:
  - {{ask: [{ask}], at: [slack:T01/C01], needed: {needed}}}
"""
    assert read_directory(text)["routes"][0]["needed"] == needed
    assert refusal_of(text.replace(f"needed: {needed}", f"needed: {needed + 1}"))[0] == 6


def test_private_chats_reach_nobody_who_is_known_by_a_group_alone() -> None:
    text = """
people: {kim: }
roles: {oncall: {permissions: [approvals:answer], groups: [slack:T01/S01]}}
routes:
  - ask: [role:oncall]
    at: [dm]
"""
    told = "dm reaches nobody: who is in the groups of oncall is known only once they press; name a channel"
    assert refusal_of(text) == (6, told)
    assert read_directory(text.replace("[dm]", "[dm, slack:T01/C01]"))
    assert read_directory(text.replace("ask: [role:oncall]", "ask: [role:oncall, kim]"))
    assert read_directory(text.replace("routes:", "members: {oncall: [kim]}\nroutes:"))
    later = "[slack:T01/C01]\n    escalate:\n      after: 8h\n      ask: [role:oncall]\n      at: [dm]"
    assert refusal_of(text.replace("[dm]", later)) == (10, told)


def test_a_person_of_two_roles_is_entitled_by_either() -> None:
    read_directory(changed("ask: [role:approver]", "ask: [role:watcher, kim]"))


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "the file is empty"),
        ("# nothing\n", 1, "the file is empty"),
        ("people:\n  a: [\n", 3, "no valid YAML"),
        ("people:\n  a: *nobody\n", 2, "undefined alias"),
        ("people: {}\n---\npeople: {}\n", 2, "no valid YAML"),
        ("- people\n", 1, "the file must be a mapping"),
        ("people: !!python/object:os.system {}\n", 1, "people must be a mapping"),
        ("people:\n  <<: {a: {}}\n", 2, "a key of people must be text"),
        ("[" * 1_000, 1, "nested too deep"),
        ('"\\UFFFFFFFF": 1', 1, "no valid YAML"),
        ("people: {}\n#" + "x" * 256 * 1024, 1, "larger than 256 KB"),
        ("people: &p [*p]\n", 1, "people must be a mapping"),
    ],
)
def test_what_is_no_directory_is_refused(text: str, line: int, told: str) -> None:
    found, problem = refusal_of(text)
    assert told in problem
    assert found == line


def test_aliases_are_taken_and_bounded() -> None:
    people = "people: {a: }\nroles: {r: &r [approvals:answer], s: *r}\nmembers: {r: [a]}\n"
    assert read_directory(people)["roles"]["s"] == ["approvals:answer"]
    runs = ", ".join("{tool: t, activity: a, task_queue: q}" for _ in range(1000))
    bomb = "agents:\n  x: {owner: a, runs: &runs [" + runs + "]}\n"
    bomb += "".join(f"  x{number}: {{owner: a, runs: *runs}}\n" for number in range(1000))
    assert "repeats too much through aliases" in refusal_of(people + bomb)[1]


FRAGMENTS = st.sampled_from(
    [*FILE.split(), "people:", "routes:", "&a", "*a", "!!int", "<<:", "- ", "[", "]", "{", "}", "|", ">", "'", '"', "?",
     "%YAML 1.1", "---", "\n  ", "\n", ": ", ",", "\t", "0x1F", "1e9", "~", "null", "yes", "2020-01-01", "\\UFFFFFFFF"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=40).map(" ".join)))
def test_no_input_raises_anything_but_its_refusal(text: str) -> None:
    try:
        read = read_directory(text)
    except DirectoryError as error:
        refused = error
        assert refused.line >= 1
        assert "\n" not in refused.problem
    else:
        assert set(read) == {"people", "chats", "roles", "members", "groups", "agents", "routes", "effects"}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(EVERYTHING) - 1), st.integers(0, 12), st.text(max_size=6))
def test_no_slip_of_the_hand_raises_anything_but_its_refusal(at: int, cut: int, put: str) -> None:
    try:
        read_directory(EVERYTHING[:at] + put + EVERYTHING[at + cut :])
    except DirectoryError as error:
        refused = error
        assert 1 <= refused.line <= EVERYTHING.count("\n") + put.count("\n") + 2


async def test_the_database_gives_back_what_was_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    await migrate(url)
    database = Database.open(url)
    wanted = read_directory(FILE)
    try:
        before = await database.read(lambda ledger: ledger.directory())
        assert len(changes(before, wanted)) == 10
        await database.write(lambda ledger: ledger.replace_directory(wanted))
        assert changes(await database.read(lambda ledger: ledger.directory()), wanted) == []
        (route,) = await database.read(lambda ledger: ledger.routes())
        assert (route.timeout_s, route.remind_s, route.ask) == (86400, 14400, ("role:approver",))
        (agent,) = await database.read(lambda ledger: ledger.agents())
        assert agent.runs == (("stripe.refund", "refund", "billing"),)
        assert {identity.id for identity in await database.read(lambda ledger: ledger.identities("dana"))} == {
            "1001", "U01", "4201"}  # fmt: skip
    finally:
        await database.close()


@pytest.mark.parametrize("file", [FILE, EVERYTHING])
async def test_what_the_database_gives_back_can_be_applied_as_it_is(file: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    await migrate(url)
    database = Database.open(url)
    wanted = read_directory(file)
    try:
        await database.write(lambda ledger: ledger.replace_directory(wanted))
        held = written(await database.read(lambda ledger: ledger.directory()))
        assert read_directory(json.dumps(held)) == wanted
    finally:
        await database.close()


@pytest.mark.parametrize("on", ["sqlite", "postgresql"])
async def test_applied_again_nothing_changes(on: str, tmp_path: Path, postgres_database: str) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}" if on == "sqlite" else postgres_database
    await migrate(url)
    database = Database.open(url)
    wanted = read_directory(EVERYTHING)
    try:
        await database.write(lambda ledger: ledger.replace_directory(wanted))
        before = await database.read(lambda ledger: ledger.directory())
        assert changes(before, wanted) == []
        assert "+ groups of watcher (slack:T01/S0123, discord:80/81)" in changes({}, before)
        await database.write(lambda ledger: ledger.replace_directory(read_directory(FILE)))
        assert changes(await database.read(lambda ledger: ledger.directory()), read_directory(FILE)) == []
        assert changes(read_directory(FILE), wanted) == changes(
            await database.read(lambda ledger: ledger.directory()), wanted
        )
    finally:
        await database.close()


async def test_a_mode_of_the_file_stands_over_one_that_was_set_by_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    await migrate(url)
    database = Database.open(url)

    async def apply(text: str) -> tuple[list[str], Mode]:
        wanted = read_directory(text)
        told = changes(await database.read(lambda ledger: ledger.directory()), wanted)
        await database.write(lambda ledger: ledger.replace_directory(wanted))
        (agent,) = await database.read(lambda ledger: ledger.agents())
        return told, agent.mode

    without = changed("    mode: outside\n", "")
    try:
        assert (await apply(FILE))[1] is Mode.OUTSIDE
        await database.write(lambda ledger: ledger.set_mode("billing", Mode.EVERYTHING))
        assert await apply(FILE) == (["~ agent billing: mode everything -> outside"], Mode.OUTSIDE)
        assert await apply(without) == (["~ agent billing: mode outside -> nothing"], Mode.OUTSIDE)
        await database.write(lambda ledger: ledger.set_mode("billing", Mode.MONEY_ONLY))
        assert await apply(without) == ([], Mode.MONEY_ONLY)
    finally:
        await database.close()


def test_effects_are_kept_as_they_are_written() -> None:
    read = read_directory(EVERYTHING)
    assert read["effects"] == {
        "tools": {"acme.lookup": "read"},
        "operations": {"crm": {"find": "read", "mail": "send"}},
        "fields": {"crm": {"shared": {"true": "send", "false": "write"}}},
        "commands": ["acme.run"],
        "reaches_nobody": {"crm": [{"operations": ["mail"], "empty": ["to"]}]},
    }
    assert tables_from(read["effects"]) != tables_from({})
    assert read_directory(f"{FILE}effects:\n")["effects"] == {}


@pytest.mark.parametrize(
    ("effects", "line", "told"),
    [
        ("effects: []", 23, "effects must be a mapping"),
        ("effects:\n  toolz: {}", 24, "effects.toolz: unknown section; did you mean tools?"),
        ("effects:\n  tools:\n    a.b: read\n    a.c: reed", 26, "effects.tools.a.c: must be one of read, write, "),
        ("effects:\n  commands: [\n    a.b,\n    ''\n  ]", 26, "must be one line of 1 to 200 characters"),
        ("effects:\n  operations:\n    crm:\n      find: {}", 26, "effects.operations.crm.find: must be one of"),
        ("effects:\n  operations:\n    crm: {find: read}\n    crm: {find: send}", 26, "'crm' is there twice"),
        ("effects:\n  reaches_nobody:\n    crm:\n      - {empty: [to]}\n      - {ops: [mail]}", 27,
         "effects.reaches_nobody.crm.1.ops: unknown part; there are operations, empty"),
        ("effects:\n  fields: {crm: {shared: {true: send}}}", 24, "a key of shared must be text"),
        ("effects: &e {tools: *e}", 23, "is nested too deep"),
    ],
)  # fmt: skip
def test_effects_are_refused_with_the_line(effects: str, line: int, told: str) -> None:
    found, problem = refusal_of(f"{FILE}{effects}\n")
    assert told in problem
    assert found == line


def test_changed_effects_are_told_a_line_each() -> None:
    after = read_directory(
        EVERYTHING.replace("mail: send}", "mail: write}").replace("[acme.run]", "[acme.do]").replace("lookup", "find")
    )
    assert changes(read_directory(EVERYTHING), after) == [
        "- effects tools.acme.lookup",
        "- effects commands.acme.run",
        "+ effects tools.acme.find (read)",
        "~ effects operations.crm: find read, mail send -> find read, mail write",
        "+ effects commands.acme.do",
    ]
    nobody = "+ effects reaches_nobody.crm (operations {mail}, empty {to})"
    assert nobody in changes(read_directory(FILE), read_directory(EVERYTHING))


def test_a_first_directory_is_all_new() -> None:
    assert changes({}, read_directory(FILE)) == [
        "+ person dana (Dana Reyes)",
        "+ person ola (Ola Berg)",
        "+ person kim (Kim Sato)",
        "+ role admin (admin, approvals:view, approvals:answer, approvals:delegate)",
        "+ role approver (approvals:view, approvals:answer)",
        "+ role watcher (approvals:view)",
        "+ members of admin (kim)",
        "+ members of approver (dana, ola, kim)",
        "+ agent billing (dana)",
        "+ route 1 (agent billing, effect money: ask role:approver at telegram:-1001234/31, dm)",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: Ola Berg", "name: Ola B", ["~ person ola: name Ola Berg -> Ola B"]),
        ("telegram: 1001", "telegram: 1002", ["~ person dana: telegram 1001 -> 1002"]),
        ("telegram: 1001, ", "", ["~ person dana: telegram 1001 -> nothing"]),
        ("name: Ola Berg", "name: Ola Berg, language: de", ["~ person ola: language nothing -> de"]),
        ("routes:\n", "chats: {'slack:C01': {language: de}}\nroutes:\n", ["+ chat slack:C01 (de)"]),
        ("  watcher: [approvals:view]\n", "", ["- role watcher"]),
        ("admin: [kim]", "admin: [kim, ola]", ["~ members of admin: kim -> kim, ola"]),
        ("owner: dana", "owner: kim", ["~ agent billing: owner dana -> kim"]),
        ("timeout: 24h", "timeout: 90m\n    needed: 1", None),
        ("routes:\n", "routes:\n  - {ask: [dana], at: [dm]}\n", ["+ route 1 (everything: ask dana at dm)"]),
        ("ask: [role:approver]", "ask: [dana]", ["~ route 1: ask role:approver -> dana"]),
        ("    timeout: 24h\n", "", ["~ route 1: timeout 24h -> nothing"]),
        ("timeout: 24h", "timeout: 24h\n    needed: 2", ["~ route 1: needed 1 -> 2"]),
        ("timeout: 24h", "timeout: 24h\n    four_eyes: true", ["~ route 1: four_eyes nothing -> true"]),
        (
            "timeout: 24h",
            "timeout: 24h\n    escalate: {after: 8h, ask: [role:admin, ola], at: [dm]}",
            ["~ route 1: escalate nothing -> after 8h, ask role:admin, ola at dm"],
        ),
        (
            "routes:\n",
            "routes:\n  - {ask: [dana, ola], at: [dm], needed: 2, four_eyes: true, "
            "escalate: {after: 90m, ask: [kim], at: [dm]}}\n",
            ["+ route 1 (everything: ask dana, ola at dm, needed 2, four_eyes, escalate after 90m, ask kim at dm)"],
        ),
        ("watcher: [approvals:view]", GROUPS, ["+ groups of watcher (slack:T01/S0123, discord:80/81)"]),
        ("mode: outside", "mode: everything", ["~ agent billing: mode outside -> everything"]),
        ("    mode: outside\n", "", ["~ agent billing: mode outside -> nothing"]),
    ],
)
def test_changes_are_told_a_line_each(old: str, new: str, told: list[str] | None) -> None:
    if told is None:
        new, told = new.replace("90m", "5h"), ["~ route 1: timeout 24h -> 5h"]
    assert changes(read_directory(FILE), read_directory(changed(old, new))) == told


def test_nothing_changes_when_nothing_changed() -> None:
    reordered: dict[str, Any] = read_directory(FILE)
    reordered["people"] = dict(reversed(reordered["people"].items()))
    assert changes(read_directory(FILE), reordered) == []
    assert changes({}, {"people": {}, "roles": {}, "members": {}, "agents": {}, "routes": []}) == []


def test_what_is_gone_is_told() -> None:
    told = changes(read_directory(FILE), read_directory("people: {dana: {name: Dana Reyes}}"))
    assert "- person ola" in told
    assert "- agent billing" in told
    assert "- route 1 (agent billing, effect money: ask role:approver at telegram:-1001234/31, dm)" in told


@pytest.mark.parametrize(
    ("place", "destination"),
    [
        ("slack:C0123", Destination("slack", "", "C0123")),
        ("slack:T01/C0123", Destination("slack", "T01", "C0123")),
    ],
)
def test_a_slack_place_names_a_channel_and_may_name_its_workspace(place: str, destination: Destination) -> None:
    (route, *_) = read_directory(changed("telegram:-1001234/31", place))["routes"]
    assert place in route["at"]
    assert place_of(place) == destination
