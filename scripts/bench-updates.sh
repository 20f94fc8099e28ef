#!/bin/bash
# What an update of an image costs by zsync, as a table for docs/design/updates.md.
#
#   usage: bench-updates.sh PACKFS WORKPLACE      (as root; needs debootstrap, zsync and nginx)
#
# In the directory WORKPLACE, it makes a Debian 11 root as it was released and one with all updates since, builds images of
# both with each set of options, and lets zsync fetch the new image from a server, given the old one.
set -euo pipefail
packfs=$(realpath "$1")
mkdir -p "$2"
cd "$2"

# Leaves only what a package manager does not fetch anew.
clean() {
    rm -rf "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*
}

if [[ ! -d new ]]; then
    debootstrap --variant=minbase bullseye old >debootstrap.log
    cp -a old new
    mirror="http://deb.debian.org"
    printf 'deb %s bullseye main\ndeb %s bullseye-security main\n' \
        "$mirror/debian" "$mirror/debian-security" >new/etc/apt/sources.list
    cp /etc/resolv.conf new/etc/
    chroot new sh -c 'apt-get -q update && apt-get -qy -o Dpkg::Options::=--force-confold upgrade' >upgrade.log
    clean old
    clean new
fi

cat >nginx.conf <<END
pid $PWD/nginx.pid; error_log $PWD/nginx.log;
events {} http { access_log off; server { listen 127.0.0.1:8767; root $PWD; } }
END
nginx -c "$PWD/nginx.conf" -p "$PWD"
trap 'nginx -s stop -c "$PWD/nginx.conf" -p "$PWD"' EXIT

# Prints a number of bytes in MB.
mb() {
    awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1e6 }'
}

# Builds both images, updates one to the other, and prints a row of the table.
row() {
    local state fetched
    for state in old new; do
        "$packfs" build "$state" -o "$state.image" --force -q "$@"
    done
    zsyncmake -q -b 2048 -o new.zsync -u http://127.0.0.1:8767/new.image new.image 2>/dev/null
    fetched=$(zsync -i old.image -o updated http://127.0.0.1:8767/new.zsync 2>/dev/null | tr '\r' '\n' |
        sed -n 's/.*fetched \([0-9]*\).*/\1/p' | tail -1)
    cmp updated new.image
    rm -f updated
    echo "| \`$*\` | $(mb "$(stat -c %s new.image)") | $(mb "$fetched") |"
}

"$packfs" --version
echo "| options | MB | fetched |"
echo "|---|--:|--:|"
row --format squashfs --codec zstd:15
for image in "--codec zstd:15 --target-kernel 6.12" \
    "--codec zstd:15 --target-kernel 6.17 --features 48bit,unaligned"; do
    for cuts in "" --rsyncable=1M --rsyncable=256K --rsyncable=64K; do
        # shellcheck disable=SC2086
        row --format erofs $image $cuts
    done
done
