#!/usr/bin/env python3
"""Writes pages of reference from the program's own tables: reference.py PACKFS DIRECTORY

A page for each command, from its help; one for the codecs; and one for each program whose command lines packfs takes. They
are part of the site only: in the repository they would be a second copy of what the program prints.
"""
import os
import re
import subprocess
import sys

# Commands that print texts for other programs have no options worth a page.
LEFT_OUT = ("completions", "man")


def run(packfs, *words):
    return subprocess.run([packfs, *words], check=True, text=True, stdout=subprocess.PIPE).stdout


def commands(packfs):
    """Names of the commands with what each does."""
    listed = run(packfs, "--help").split("Commands:\n")[1].split("\n\n")[0]
    pairs = [line.split(None, 1) for line in listed.splitlines()]
    return [(name, text) for name, text in pairs if name not in LEFT_OUT]


def escaped(text):
    """A line of help as Markdown: what looks like a tag or an emphasis is text."""
    return re.sub(r"([<*_\[])", r"\\\1", text)


def option_title(line):
    return "### `" + line.strip() + "`"


def paragraphs(lines):
    """The text of an option or of a command, with its possible values as a list."""
    for line in lines:
        text = line.strip()
        yield ("\n" + escaped(text) + "\n") if text.endswith("values:") else escaped(text)


def help_page(name, text):
    """The help of a command as a page: a section for each group, and a heading for each option."""
    out = [f"# packfs {name}", ""]
    in_examples = False
    for line in re.sub(r"\n\s*\n(\s*\n)*", "\n\n", text).splitlines():
        if re.match(r"^[A-Z][^:]*:$", line):
            in_examples = line == "Examples:"
            out += ["", "## " + line[:-1], ""]
            if in_examples:
                out.append("```sh")
        elif line.startswith("Usage:"):
            out += ["", "```text", line, "```", ""]
        elif in_examples:
            if line.strip():
                out.append(line.strip())
        elif re.match(r"^ {2,6}(-|<|\[)", line):
            out += ["", option_title(line), ""]
        else:
            out += paragraphs([line])
    if in_examples:
        out.append("```")
    return "\n".join(out) + "\n"


def options_table(packfs, program):
    """What becomes of each option of another program. Columns are separated by two blanks or more."""
    rows = []
    for line in run(packfs, "as", "--list", program).splitlines():
        cells = re.split(r" {2,}", line.removeprefix(program).strip(), maxsplit=2)
        cells += [""] * (3 - len(cells))
        cells = [cell.replace("|", "\\|") for cell in cells]
        rows.append("| " + " | ".join([f"`{cells[0]}`"] + [escaped(cell) for cell in cells[1:]]) + " |")
    return "\n".join(["| option | becomes | by |", "|---|---|---|"] + rows)


def programs(packfs):
    """Programs in the order of the whole list."""
    names = [line.split()[0] for line in run(packfs, "as", "--list").splitlines() if line.strip()]
    return list(dict.fromkeys(names))


def write(folder, name, text):
    with open(os.path.join(folder, name + ".md"), "w", encoding="utf-8") as file:
        file.write(text)


def main():
    packfs, folder = sys.argv[1:3]
    os.makedirs(folder, exist_ok=True)
    version = run(packfs, "--version").strip()
    index = ["# All options", "", f"Made from the tables of {version}.", "", "| command | does |", "|---|---|"]
    for name, text in commands(packfs):
        write(folder, name, help_page(name, run(packfs, name, "--help")))
        index.append(f"| [{name}]({name}.md) | {escaped(text)} |")
    write(folder, "codecs", f"# Codecs and their options\n\n```text\n{run(packfs, 'build', '--codec', 'help')}```\n")
    index += ["", "[Codecs and their options](codecs.md)", "", "Options of other programs:", "", "| program |", "|---|"]
    for program in programs(packfs):
        page = "as-" + program.replace(".", "-")
        write(folder, page, f"# Options of {program}\n\n[What differs](../guide/drop-in.md)\n\n{options_table(packfs, program)}\n")
        index.append(f"| [{program}]({page}.md) |")
    write(folder, "README", "\n".join(index) + "\n")


main()
