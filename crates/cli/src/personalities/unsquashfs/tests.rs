use super::*;
use crate::personalities::options::{OptionEffect, OptionValues};

fn line(translated: TranslatedLine) -> String {
    match translated {
        TranslatedLine::Show(line, _) => line.into_text(),
        other => panic!("{other:?}"),
    }
}

fn translated(text: &str) -> Result<String, String> {
    unsquashfs(text.split(' ').map(OsString::from).collect()).map(line)
}

#[test]
fn command_lines_of_callers_become_commands() {
    let table = [
        // snapd
        (
            "-n -f -d to a.snap meta/*",
            "extract --directory=to --force --on-error=skip --quiet --ignore-missing -- a.snap meta/*",
        ),
        ("-n -i -d to a.snap", "extract --directory=to --on-error=skip --quiet -- a.snap"),
        ("-n -cat a.snap meta/snap.yaml", "cat -- a.snap meta/snap.yaml"),
        ("-n -l -d  a.snap x", "list --ignore-missing -- a.snap x"),
        // enroot
        ("-s a.sqsh", "info -- a.sqsh"),
        (
            "-no-progress -user-xattrs -d to a.sqsh",
            "extract --directory=to --on-error=skip --exclude-xattr=trusted.* --exclude-xattr=security.* --quiet -- a.sqsh",
        ),
        // AppImages
        ("-o 4096 -ll a.AppImage", "list --offset=4096 --long --names -- a.AppImage"),
        (
            "-excludes -max 2 -lln a.sqfs /etc usr/**/x{1}",
            "list --long --max-depth=2 --exclude=/etc --exclude=/usr/*/x\\{1\\} -- a.sqfs",
        ),
        ("-ex a b* ; -l a.sqfs -c", "list --ignore-missing --exclude=/a --exclude=/b* -- a.sqfs -c"),
        (
            "-r -l -ex b ; a.sqfs ^a.$/x",
            "list --ignore-missing --regex=(?m-s)\\A[^/]*(?:^a.$)[^/]*/[^/]*(?:x)[^/]*\\z \
             --exclude-regex=(?m-s)\\A[^/]*(?:b)[^/]*\\z -- a.sqfs",
        ),
        (
            "-n -pf out -no-xattrs -f a.sqfs x",
            "tar --format=pseudo --force --output=out --no-xattrs --quiet --ignore-missing -- a.sqfs x",
        ),
        ("-cat -r a.sqfs b/[c]", "cat --regex=(?m-s)\\A[^/]*(?:b)[^/]*/[^/]*(?:[c])[^/]*\\z -- a.sqfs"),
        ("-l a.sqfs b\\{c\\} \\**{", "list --ignore-missing -- a.sqfs b\\{c\\} \\**\\{"),
        ("-L -l a.sqfs b*", "list --follow --ignore-missing -- a.sqfs b\\*"),
        ("-missing -ll a.sqfs b", "list --long --names --follow -- a.sqfs b"),
        ("-pf - -all-time 5 a.sqfs", "tar --format=pseudo --time=5 --quiet -- a.sqfs"),
        (
            "-match -all-time 5 -p 3 -st -no-xattrs a.sqfs x*",
            "extract --directory=squashfs-root --time=5 --jobs=3 --on-error=stop --no-xattrs --quiet --follow -- a.sqfs x\\*",
        ),
    ];
    for (text, expected) in table {
        let text = text.replace("-d  ", "-d x ");
        assert_eq!(translated(&text).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_would_select_something_else_is_refused() {
    for (text, why) in [
        ("-l", "no input filesystem"),
        ("-regex a.sqfs x/[", "x/[: a bracket is not closed"),
        ("-follow -r a.sqfs x", "both -no-wildcards"),
        ("-frobnicate a.sqfs", "no such option"),
        ("-pf - -l a.sqfs", "both a listing"),
        ("-pf - -cat a.sqfs x", "both -pf and -cat"),
        ("a.sqfs !(x)", "extended patterns"),
        ("-xattrs-include ^other a.sqfs", "^user."),
        ("-e nosuch a.sqfs", "cannot read"),
        ("-p 0 a.sqfs", "-p 0: expected a number, 1 or more"),
        ("-mem 1 a.sqfs", "-mem 1: expected at least 2M"),
        ("-mem-percent 76 a.sqfs", "expected a number from 1 to 75"),
        ("-da abc a.sqfs", "-da abc: expected a number"),
        ("-cols abc a.sqfs", "-cols abc: expected a number"),
    ] {
        let error = translated(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn every_option_of_the_tables_is_understood() {
    for (table, run) in
        [(TABLE, unsquashfs as fn(Vec<OsString>) -> Result<TranslatedLine, String>), (CAT_TABLE, sqfscat as fn(_) -> _)]
    {
        crate::personalities::options::tests::check(table);
        for option in table.iter().filter(|option| matches!(option.does, OptionEffect::Same(_))) {
            let mut args: Vec<OsString> = vec![option.names[0].into()];
            match (option.takes, option.names[0]) {
                (OptionValues::Nothing, _) => {}
                (OptionValues::List, _) => args.extend(["x".into(), ";".into()]),
                (_, "-extract-file" | "-exclude-file") => args.push("Cargo.toml".into()),
                (_, "-xattrs-exclude" | "-xattrs-include") => args.push("^user.".into()),
                _ => args.push("1".into()),
            }
            args.extend(["new.sqfs".into(), "x".into()]);
            run(args).unwrap_or_else(|why| panic!("{option:?}: {why}"));
        }
    }
}
