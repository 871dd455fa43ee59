#!/bin/sh
# Makes .venv, where everything runs; returns at once when it is whole and up to date.
#
#     PYTHON=/path/to/python3.12 sh scripts/bootstrap.sh
#
# pip's own settings (PIP_INDEX_URL, PIP_PROXY, ...) are honoured.
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
min_free_mb=${AIRPOOL_MIN_FREE_MB:-4096}
log=.venv/install.log
stamp=.venv/installed
another='make PYTHON=/path/to/python3.12 demo'

fail() {
    printf 'airpool: %s\n' "$1" >&2
    exit 1
}

version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

# The stamp of a whole environment. It names the folder because an environment does not survive being moved.
whole() {
    printf 'Python %s, inputs %s, in %s\n' "$(version_of .venv/bin/python)" \
        "$(cat pyproject.toml packages/*/pyproject.toml constraints.txt | cksum)" "$(pwd -P)"
}

explain() {
    if grep -qE 'No space left on device|Errno 28' "$log"; then
        fail "the disk is full: free some space (or set TMPDIR to a larger disk) and run again. Full log: $log"
    elif grep -qE 'NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|Max retries exceeded|Could not fetch URL|connection broken' "$log"; then
        fail "no network: pip cannot reach its package index. Check the connection (or PIP_PROXY, PIP_INDEX_URL) and run again. Full log: $log"
    else
        fail "the installation failed: $(grep -i error "$log" | tail -n 1). Full log: $log"
    fi
}

# step WHAT COMMAND...: one short line with the time it took; the rest goes to the log.
step() {
    printf '%s ... ' "$1"
    shift
    begin=$(date +%s)
    if ! "$@" >>"$log" 2>&1; then
        echo failed
        explain
    fi
    echo "$(($(date +%s) - begin)) s"
}

# The default `python3` accepts an environment that was made with another Python; a named one does not.
if [ "$(cat "$stamp" 2>/dev/null)" = "$(whole)" ] &&
    { [ "$PYTHON" = python3 ] || [ "$(version_of "$PYTHON")" = "$(version_of .venv/bin/python)" ]; }; then
    exit 0
fi

command -v "$PYTHON" >/dev/null || fail "$PYTHON not found: install Python 3.11 or newer, or point to one: $another"
version=$(version_of "$PYTHON") || fail "$PYTHON does not run: install Python 3.11 or newer, or point to one: $another"
case $version in
    [0-2].* | 3.[0-9].* | 3.10.*) fail "$PYTHON is Python $version, but 3.11 or newer is needed. Point to one: $another" ;;
esac
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$PYTHON has no venv module: install it (on Debian and Ubuntu: apt install python3-venv) or point to another Python: $another"

# An environment can be kept, and an interrupted installation resumed, if its pip is its own and runs.
rm -f "$stamp"
if [ "$(version_of .venv/bin/python)" = "$version" ] &&
    .venv/bin/pip --version 2>/dev/null | grep -qF "from $(pwd -P)/.venv/"; then
    fresh=false
else
    fresh=true
fi

set -- .venv/lib/python*/site-packages/torch-*.dist-info
if $fresh || [ ! -e "$1" ]; then
    free_mb=$("$PYTHON" -c 'import shutil; print(shutil.disk_usage(".").free >> 20)')
    [ "$free_mb" -ge "$min_free_mb" ] ||
        fail "too little disk space: $free_mb MB free where .venv goes, $min_free_mb MB needed"
fi

if $fresh; then
    rm -rf .venv
    mkdir .venv
    step "making .venv with Python $version" "$PYTHON" -m venv .venv
fi
: >"$log"

# pip writes INSTALLER once all files are in place: without it, a package is half there, but pip takes it for whole.
for info in .venv/lib/python*/site-packages/*.dist-info; do
    [ -e "$info/INSTALLER" ] || rm -rf "$info"
done

# torch first and by its pin: a looser request may bring gigabytes of CUDA.
torch=$(grep '^torch==' constraints.txt)
pip() { .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@"; }
step "installing torch ${torch#torch==}" pip "$torch"
# Dependency groups, which hold the tools, want a pip of 25.1 or later.
step "installing pip" pip -c constraints.txt pip
step "installing airpool and its tools" pip -c constraints.txt --group dev \
    -e './packages/airpool[models,plots,design,mesh,camera,accounting]' -e ./packages/airpool-models \
    -e './packages/airpool-lab[mesh,radio]' -e './packages/airpool-runtime[fleet]' -e ./packages/airpool-web
whole >"$stamp"
