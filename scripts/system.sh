#!/bin/sh
# Installs Chromium, GNU Radio and PostgreSQL for the tests that need them, where that is allowed; they skip visibly without.
wanted=""
found=""
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null 2>&1 && found=yes
done
[ -n "$found" ] || wanted="chromium"
command -v gnuradio-config-info >/dev/null 2>&1 || wanted="$wanted gnuradio"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || wanted="$wanted postgresql"
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    log=$(mktemp)
    apt-get update -q >"$log" 2>&1
    for package in $wanted; do
        echo "installing $package ..."
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" >"$log" 2>&1 ||
            { tail -3 "$log"; echo "no $package: its tests are skipped"; }
    done
    rm -f "$log"
else
    echo "no $wanted, and no right to install: their tests are skipped"
fi
