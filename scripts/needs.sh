# Shared by the scripts here: find out what is missing, and install it where that is allowed.
# Sourced, not run.

say() { printf '%s\n' "$*" >&2; }

# need PACKAGE TOOL...: remembers PACKAGE as missing unless every TOOL is on the path.
missing=()
need() {
    local package=$1 tool
    shift
    for tool in "$@"; do
        if ! command -v "$tool" >/dev/null 2>&1; then
            missing+=("$package")
            return
        fi
    done
}

# Installs what `need` found missing when this is root on a Debian-like system; otherwise says what to do
# and fails.
install_missing() {
    ((${#missing[@]})) || return 0
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        say "installing: ${missing[*]}"
        if ! DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; then
            apt-get update -qq >&2
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
        fi
        missing=()
    else
        say "missing: ${missing[*]}"
        say "install them as root with: apt-get install ${missing[*]}"
        return 1
    fi
}

need_rust() {
    PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    if ! command -v cargo >/dev/null; then
        say "missing: Rust $(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) or newer; see https://rustup.rs"
        return 1
    fi
}
