# shellcheck shell=bash disable=SC2154
# Starts docker-registry and containerd on loopback, with all that they write in the directory $work. Sourced, not run.

registry=127.0.0.1:5000
architecture=$(dpkg --print-architecture)

# Prepares the namespaces of this process, and what every containerd finds in its PATH.
prepare_namespaces() {
    # Sockets of shims and states of runc have fixed places.
    mount -t tmpfs -o mode=755 tmpfs /run
    ip link set lo up
    # Where this runs in a container itself, as in CI: overlayfs has no upper directories on overlayfs.
    if [[ $(stat -f -c %T "$work") == overlayfs ]]; then
        mkdir "$work/memory"
        mount -t tmpfs tmpfs "$work/memory"
        mv "$work/packages" "$work/memory/"
        work=$work/memory
    fi
    # Linux loads a file system when somebody mounts it, and containerd does not try.
    local file_system
    for file_system in erofs overlay squashfs; do
        mount -t "$file_system" none /run 2>/dev/null || true
    done
    export TMPDIR=$work
    mkdir "$work/programs"
    ln -s "$(command -v runc)" "$tools/containerd-shim-runc-v2" "$work/programs/"
}

# run_logged FILE COMMAND...: runs a command with what it says going to a file. To be started with & outside of conditions:
# in a condition, a function would go on after a failure.
run_logged() {
    exec >"$1" 2>&1
    trap 'kill "${containerd_process:-}" 2>/dev/null || true' EXIT
    "${@:2}"
}

# ended_well PROCESS FILE: waits for what run_logged began, and shows the end of the file if it failed.
ended_well() {
    wait "$1" && return
    tail -n 20 "$2" >&2
    return 1
}

# wait_until SECONDS COMMAND...: runs a command until it succeeds.
wait_until() {
    local end=$((SECONDS + $1))
    until "${@:2}" >/dev/null 2>&1; do
        if ((SECONDS >= end)); then
            say "waited $1 s in vain: ${*:2}"
            return 1
        fi
        sleep 0.1
    done
}

answers() {
    (exec 3<>"/dev/tcp/${1%:*}/${1#*:}")
}

start_registry() {
    cat >"$work/registry.yml" <<END
version: 0.1
storage: {filesystem: {rootdirectory: $work/registry}}
http: {addr: "$registry"}
log: {level: warn}
END
    docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
    wait_until 60 answers "$registry"
}

# start_containerd DIR DIFFER PROGRAMS [CACHE]: starts a containerd that has nothing yet.
#
#   DIR       where its configuration, contents, snapshots, sockets and log are
#   DIFFER    what unpacks layers for the snapshotter erofs: erofs, which runs mkfs.erofs, or walking, which does not
#   PROGRAMS  a directory with programs that it finds besides runc
#   CACHE     a layer cache
#
# It finds no other programs, so an mkfs.erofs of the system cannot stand in for anything.
start_containerd() {
    local dir=$1
    local differ=$2
    local cache=
    local native=
    mkdir -p "$dir" "$3"
    [[ -z ${4:-} ]] || cache="layer_content_caches = [\"$4\"]"
    # Layers that are EROFS images already go to the differ erofs, which does not load without an mkfs.erofs.
    [[ $differ != erofs ]] || native="
  [[plugins.\"io.containerd.transfer.v1.local\".unpack_config]]
    platform = \"linux(+erofs)/$architecture\"
    snapshotter = \"erofs\"
    differ = \"erofs\""
    cat >"$dir/config.toml" <<END
version = 3
root = "$dir/root"
state = "$dir/state"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.blockfile"]
[grpc]
  address = "$dir/socket"
[ttrpc]
  address = "$dir/ttrpc"
[debug]
  level = "debug"
[plugins."io.containerd.snapshotter.v1.erofs"]
  $cache
[plugins."io.containerd.service.v1.diff-service"]
  default = [$([[ $differ == walking ]] || echo '"erofs", ')"walking"]
[plugins."io.containerd.differ.v1.erofs"]
  mkfs_options = ["-T0", "--mkfs-time", "--sort=none"]
[plugins."io.containerd.transfer.v1.local"]
  [[plugins."io.containerd.transfer.v1.local".unpack_config]]
    platform = "linux/$architecture"
    snapshotter = "erofs"
    differ = "$differ"
  [[plugins."io.containerd.transfer.v1.local".unpack_config]]
    platform = "linux/$architecture"
    snapshotter = "overlayfs"
    differ = "walking"$native
END
    PATH=$3:$work/programs "$tools/containerd" -c "$dir/config.toml" >"$dir/log" 2>&1 &
    containerd_process=$!
    containerd_dir=$dir
    ctr=("$tools/ctr" -a "$dir/socket" -n "$namespace")
    if ! wait_until 60 "${ctr[@]}" version; then
        tail -n 5 "$dir/log" >&2
        return 1
    fi
}

stop_containerd() {
    kill "$containerd_process"
    wait "$containerd_process" || true
}

# run_container SNAPSHOTTER REFERENCE, or run_container --rootfs DIR: has a container check its files. What it says goes to
# seen.txt, and what is mounted meanwhile to mounts.txt, in the directory of this containerd.
run_container() {
    local name
    name=c$((++containers))
    local what=(--snapshotter "$1" "$2" "$name")
    [[ $1 != --rootfs ]] || what=(--rootfs "$2" "$name")
    timeout 300 "${ctr[@]}" run --detach --allow-new-privs "${what[@]}" /bin/busybox sleep 1000
    findmnt -rn -o FSTYPE,SOURCE,OPTIONS >"$containerd_dir/mounts.txt"
    # A container that cannot read its files fails by what it says.
    timeout 300 "${ctr[@]}" tasks exec --exec-id check "$name" /bin/sh /usr/libexec/check.sh \
        >"$containerd_dir/seen.txt" 2>"$containerd_dir/errors.txt" || true
    "${ctr[@]}" tasks rm -f "$name" >/dev/null 2>&1 || true
    "${ctr[@]}" containers rm "$name"
}
containers=0
