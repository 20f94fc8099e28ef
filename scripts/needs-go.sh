# Shared by the scripts that build Go programs: find a Go that is new enough, or take one from the proxy.
# Sourced after needs.sh, not run.

# What the programs demand, and what is taken where Go is older, as in Debian 12.
oldest_go=1.26.6
newer_go=1.26.8

# prepare_go WORK: sets `go`, and has it keep in WORK all that it fetches and compiles. Status 3: there is no Go.
prepare_go() {
    local work=$1 candidate toolchain
    PATH=$PATH:/usr/local/go/bin
    need golang-go go
    install_missing || return 3
    export GOMODCACHE=$work/modules
    export GOCACHE=$work/cache
    # Modules are written so that they can be deleted. Settings of the user's, such as -mod=vendor, are not for this.
    export GOFLAGS=-modcacherw
    export GOTOOLCHAIN=local
    export GOWORK=off
    go=
    while read -r candidate; do
        if is_new_go "$candidate"; then
            go=$candidate
            return
        fi
    done < <(type -ap go)
    say "Go is older than $oldest_go: taking $newer_go from the proxy"
    toolchain="golang.org/toolchain@v0.0.1-go$newer_go.linux-$(go env GOARCH)"
    go mod download "$toolchain" || return 3
    go=$GOMODCACHE/$toolchain/bin/go
    # Modules have no executable files.
    chmod +x "$go" "$GOMODCACHE/$toolchain"/pkg/tool/*/*
}

is_new_go() {
    local version
    version=$("$1" env GOVERSION)
    [[ $(printf '%s\n' "$oldest_go" "${version#go}" | sort -V | head -n 1) == "$oldest_go" ]]
}
