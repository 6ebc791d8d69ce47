# Sourced by the scripts in tools/: functions that find or make what these need. Sourcing it sets variables only.
#
#   BERTH_PYTHON   use this Python as it is and install nothing into it
#   PYTHON         the Python to make virtual environments with (default: the first of 3.11 or later)

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export HOME="${HOME:-/root}" LC_ALL="${LC_ALL:-C.UTF-8}"

say() { printf '==> %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Can packages be installed here?
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
may_install() { command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }

# apt_install PACKAGE...: without starting any service that a package brings.
apt_install() {
    local policy=/usr/sbin/policy-rc.d mine="" status=0
    say "Installing Debian packages: $*"
    if [ ! -e "$policy" ]; then
        mine=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    as_root apt-get update -qq || say "The list of packages could not be refreshed"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends --no-upgrade "$@" </dev/null | progress Unpacking || status=$?
    [ -z "$mine" ] || as_root rm -f "$policy"
    return $status
}

# progress WORD: of what is read, show what follows WORD at the start of a line, many to a line.
progress() {
    local word rest shown=""
    while read -r word rest; do
        [ "$word" = "$1" ] || continue
        rest=${rest%% *}
        printf ' %s' "${rest%%[<>=!~;[(]*}"
        shown=yes
    done
    [ -z "$shown" ] || printf '\n'
}

# good_python COMMAND: new enough, and able to make virtual environments?
good_python() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        command -v "$candidate" >/dev/null && good_python "$candidate" && { echo "$candidate"; return; }
    done
    return 1
}

need_python() {
    find_python >/dev/null && return
    may_install && apt_install python3 python3-venv
    find_python >/dev/null || die "Python 3.11 or later with venv and pip is needed (Debian: python3 python3-venv)"
}

# A checkout without usable git history still gets a version: pbr would ask git for it.
give_version() {
    git -C "$ROOT" rev-parse HEAD >/dev/null 2>&1 && return
    PBR_VERSION=${PBR_VERSION:-$(sed -n 's/^version *= *//p' "$ROOT/setup.cfg")}
    export PBR_VERSION
}

# make_venv DIRECTORY NAME PIP-ARGUMENT...: a virtual environment with these installed, made again only when
# what it is made of has changed.
make_venv() {
    local directory=$1 name=$2 stamp=$1/.ready-$2 made_of
    shift 2
    made_of=$({ echo "$@"; cat "$ROOT"/*requirements.txt "$ROOT/doc/requirements.txt" "$ROOT/setup.cfg"; } | cksum)
    [ "$(cat "$stamp" 2>/dev/null)" != "$made_of" ] || return 0
    need_python
    give_version
    say "Making the virtual environment $directory for $name (this takes a minute or two)"
    if [ ! -x "$directory/bin/python" ]; then
        "$(find_python)" -m venv "$directory"
        # The one that comes with Python 3.11 takes more than twice as long to choose among the files of an index
        "$directory/bin/python" -m pip install -q --upgrade pip </dev/null || say "pip could not be upgraded"
    fi
    "$directory/bin/python" -m pip install "$@" </dev/null | progress Collecting
    echo "$made_of" >"$stamp"
}

# berth_python NAME PIP-ARGUMENT...: sets $BERTH_PYTHON to one that has Berth and these installed.
berth_python() {
    [ -z "${BERTH_PYTHON:-}" ] || return 0
    cd "$ROOT"
    make_venv "$ROOT/.venv" "$1" -e . "${@:2}"
    BERTH_PYTHON=$ROOT/.venv/bin/python
}

# The servers that tests start for themselves live outside a user's usual PATH.
find_servers() {
    local directory
    for directory in /usr/sbin /usr/local/sbin /usr/lib/postgresql/*/bin; do
        case ":$PATH:" in *":$directory:"*) ;; *) [ ! -d "$directory" ] || PATH=$PATH:$directory ;; esac
    done
    export PATH
}

# By itself: its package has other names elsewhere, and must not keep the servers from being installed.
need_browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    may_install && apt_install chromium-headless-shell && return
    say "No Chromium is installed: the tests of the decision page do not run."
}

need_servers() {
    local missing=()
    find_servers
    command -v rabbitmq-server >/dev/null || missing+=(rabbitmq-server)
    command -v mariadbd >/dev/null || command -v mysqld >/dev/null || missing+=(mariadb-server)
    command -v postgres >/dev/null || missing+=(postgresql)
    need_browser
    [ ${#missing[@]} -gt 0 ] || return 0
    if may_install; then
        apt_install "${missing[@]}"
        find_servers
    else
        say "Not installed and not installable here: ${missing[*]}. Tests that need them do not run."
    fi
}

# need_machines PROGRAM...: what makes and boots systems of Debian, and more programs that are packages of that name.
need_machines() {
    local program missing=()
    find_servers
    command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
    command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
    for program in "$@"; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    may_install || die "Not installed and not installable here: ${missing[*]}"
    apt_install "${missing[@]}"
}
