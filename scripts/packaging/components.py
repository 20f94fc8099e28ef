#!/usr/bin/env python3
"""Describes what is linked into the program: components.py sbom|notices.

`sbom` prints a CycloneDX document, `notices` the licences of everything that is not packfs. Both come from cargo's own
answers for the default features, and contain the C libraries inside crates and the static C library. SOURCE_DATE_EPOCH
is the time in the document."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = "x86_64-unknown-linux-gnu"

# C libraries inside crates: name, licence, and the header and expressions that tell the version.
INSIDE = {
    "libdeflate-sys": ("libdeflate", "MIT", "libdeflate/libdeflate.h", [r'VERSION_STRING\s+"([\d.]+)"']),
    "liblzma-sys": ("liblzma", "0BSD", "xz/src/liblzma/api/lzma/version.h",
                    [rf"LZMA_VERSION_{part} (\d+)" for part in ("MAJOR", "MINOR", "PATCH")]),
    "libz-sys": ("zlib", "Zlib", "src/zlib/zlib.h", [r'ZLIB_VERSION "([\d.]+)']),
    "lzzzz": ("lz4", "BSD-2-Clause", "vendor/liblz4/lz4.h",
              [rf"LZ4_VERSION_{part}\s+(\d+)" for part in ("MAJOR", "MINOR", "RELEASE")]),
    "zstd-sys": ("zstd", "BSD-3-Clause", "zstd/lib/zstd.h",
                 [rf"ZSTD_VERSION_{part}\s+(\d+)" for part in ("MAJOR", "MINOR", "RELEASE")]),
}


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked():
    """Returns the packages of crates that are linked, as cargo describes them, by name and version."""
    lines = output("cargo", "tree", "--locked", "-p", "packfs", "-e", "normal,no-proc-macro", "--target", TARGET,
                   "--prefix", "none", "-f", "{p}").splitlines()
    names = {(line.split()[0], line.split()[1][1:]) for line in lines if line}
    facts = json.loads(output("cargo", "metadata", "--format-version", "1", "--locked"))["packages"]
    packages = {(package["name"], package["version"]): package for package in facts}
    return [packages[name] for name in sorted(names)]


def inside(package):
    """Returns the C library inside a crate: name, version and licence."""
    if package["name"] not in INSIDE:
        return None
    name, licence, header, patterns = INSIDE[package["name"]]
    text = (pathlib.Path(package["manifest_path"]).parent / header).read_text()
    return name, ".".join(re.search(pattern, text)[1] for pattern in patterns), licence


def compiled_in():
    """Returns what compilers add: name, version, licence."""
    rust = re.search(r"rustc ([\d.]+\S*)", output("rustc", "--version"))[1]
    libc = output("getconf", "GNU_LIBC_VERSION").split()[1]
    gcc = output("gcc", "-dumpfullversion").strip()
    return [("rust-std", rust, "MIT OR Apache-2.0"), ("glibc", libc, "LGPL-2.1-or-later"),
            ("libgcc", gcc, "GPL-3.0-or-later WITH GCC-exception-3.1")]


def expression(package):
    if not package["license"]:
        sys.exit(f"{package['name']}: the manifest names no licence")
    return package["license"].replace("/", " OR ") if " OR " not in package["license"] else package["license"]


def component(name, version, licence, purl):
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "licenses": [{"expression": licence}]}


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def sbom():
    checksums = {(entry["name"], entry["version"]): entry.get("checksum")
                 for entry in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    program, components = None, []
    for package in linked():
        part = component(package["name"], package["version"], expression(package), purl(package))
        if checksum := checksums[package["name"], package["version"]]:
            part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if library := inside(package):
            part["components"] = [component(*library, f"pkg:generic/{library[0]}@{library[1]}")]
        if package["name"] == "packfs":
            program = part | {"type": "application"}
        else:
            components.append(part)
    components += [component(*added, f"pkg:generic/{added[0]}@{added[1]}") for added in compiled_in()]
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    content = json.dumps(components)
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": program},
        "components": components,
    }
    print(json.dumps(document, indent=1))


def texts(package):
    """Yields the licence files of a crate. Those of the GPL are left out: they belong to programs beside the libraries, or
    are one of two licences to choose from."""
    root = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and re.match(r"(?i)(un)?licen[cs]e|copying|copyright|notice", path.name) and "GPL" not in path.name:
            text = path.read_text(errors="replace").strip()
            if path.suffix not in (".rs", ".html") and "GNU GENERAL PUBLIC LICENSE" not in text[:200]:
                yield path.relative_to(root), text


def notices():
    print("packfs contains the following. Each licence text is printed once, below those it comes from.\n")
    shared = {}
    for package in linked():
        if package["source"] is None:
            continue
        library = inside(package)
        also = f", with {library[0]} {library[1]}: {library[2]}" if library else ""
        print(f"{package['name']} {package['version']}: {expression(package)}{also}")
        for name, text in texts(package):
            key = hashlib.sha256(" ".join(text.split()).encode()).digest()
            shared.setdefault(key, (text, []))[1].append(f"{package['name']}: {name}")
    for name, version, licence in compiled_in():
        print(f"{name} {version}: {licence}")
    print("\nThe GNU C library is linked statically, under the LGPL 2.1 (/usr/share/common-licenses/LGPL-2.1 on Debian,"
          "\nhttps://www.gnu.org/licenses/old-licenses/lgpl-2.1.html). The sources of packfs build it with another version of"
          "\nthat library: `cargo build --release` links the one of the system.")
    for text, origins in shared.values():
        print(f"\n{'=' * 78}\n" + "\n".join(origins) + f"\n{'-' * 78}\n{text}")


if __name__ == "__main__":
    {"sbom": sbom, "notices": notices}[sys.argv[1]]()
