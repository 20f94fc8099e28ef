#!/bin/sh
# What a container says of its own files, by busybox and getfattr of its image: facts that the image was made to have,
# and then everything: kinds, modes, owners, sizes, links, times, targets, contents and attributes.
# With the argument "list" only the latter, for a directory that is no container.
export LC_ALL=C PATH=/usr/bin:/bin
cd /

fact() {
    echo "fact: $*"
}

facts() {
    fact "deleted file: $(ls etc/gone 2>/dev/null || echo absent)"
    fact "deleted directory: $(ls -d etc/old 2>/dev/null || echo absent)"
    fact "removed by a whiteout: $(ls usr/share/t/removed 2>/dev/null || echo absent)"
    fact "opaque directory has: $(ls -A var/cache/deep)"
    fact "changed file: $(cat etc/motd)"
    fact "hard links: $(stat -c %h usr/share/t/one)$([ usr/share/t/one -ef usr/share/t/three ] && echo " of one file")"
    fact "attribute: $(getfattr --only-values -n user.note etc/motd)"
    fact "capability: $(getfattr -e hex -n security.capability usr/bin/busybox-raw | sed -n 's/^security.capability=//p')"
    # Linux itself reads the capability: a user without any runs the program.
    fact "a user has: $(su -s /bin/sh worker -c '/usr/bin/busybox-raw grep CapEff /proc/self/status')"
    fact "numbers: $(tail -n 1 usr/share/t/numbers) in $(wc -c <usr/share/t/numbers) bytes"
    fact "directory that was a file: $(ls -d usr/share/t/becomes-directory/*)"
    fact "file that was a directory: $(cat usr/share/t/becomes-file)"
}

# Other file systems are mounted on these.
entries() {
    find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run \) -prune -o "$@" -print0 | sort -z
}

list() {
    # Directories have no size, links and time that file systems agree on.
    entries -type d | xargs -0 stat -c '%n d %a %u:%g'
    entries ! -type d | xargs -0 stat -c '%N %F %a %u:%g %s %h %t:%T %Y'
    entries -type f | xargs -0 sha256sum
    entries | xargs -0 getfattr -h -d -m '^(user|security)[.]' -e hex
}

[ "$1" = list ] || facts
list
