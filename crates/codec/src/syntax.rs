//! The text form of a choice: `NAME[:LEVEL][:key=value[,key=value...]]`, parsed and printed by the table.

use std::fmt;
use std::str::FromStr;

use crate::settings::{BcjFilters, DictSize, OptionValue};
use crate::table::{CODECS, CodecInfo, CodecOption, OptionForm};
use crate::{Choice, Codec, Error, Result, Settings};

/// Returns the settings of a codec with every option at its default.
pub(crate) fn defaults(codec: Codec) -> Settings {
    let mut settings = Settings::blank(codec);
    for opt in codec.info().options {
        // The defaults are texts, so that help and parser cannot differ; a test parses each of them.
        if let Some(value) = parse_value(&opt.form, opt.default) {
            settings.set(opt.name, value);
        }
    }
    settings
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parts = text.split([':', ',']);
        let name = parts.next().unwrap_or_default();
        let info = CODECS.iter().find(|info| info.name == name).ok_or_else(|| unknown_codec(name))?;
        let mut settings = defaults(info.codec);
        let mut given: Vec<&str> = Vec::new();
        for (position, part) in parts.enumerate() {
            let (opt, text) = split(info, part, position == 0)?;
            if given.contains(&opt.name) {
                return Err(Error::option(info.name, format!("{} is given twice", opt.name)));
            }
            let value = parse_value(&opt.form, text).ok_or_else(|| bad_value(info, opt, text))?;
            settings.set(opt.name, value);
            given.push(opt.name);
        }
        settings.settle(|name| given.contains(&name))?;
        Ok(Choice { settings })
    }
}

impl Choice {
    /// Returns the choice with another level.
    ///
    /// # Errors
    /// [`Error::InvalidOption`], with the accepted values, if the codec does not have this level.
    pub fn with_level(mut self, level: i32) -> Result<Choice> {
        let info = self.codec().info();
        let opt = info.options.iter().find(|opt| opt.name == "level");
        let opt = opt.ok_or_else(|| unknown_option(info, "level"))?;
        let text = level.to_string();
        let value = parse_value(&opt.form, &text).ok_or_else(|| bad_value(info, opt, &text))?;
        self.settings.set(opt.name, value);
        self.settings.settle(|name| name == opt.name)?;
        Ok(self)
    }
}

/// Finds the option that a part sets: `key=value`, the key of a flag alone, or a level if it is the first part.
fn split<'t>(info: &'static CodecInfo, part: &'t str, first: bool) -> Result<(&'static CodecOption, &'t str)> {
    let find = |name: &str| info.options.iter().find(|opt| opt.name == name);
    let found = match part.split_once('=') {
        Some((key, value)) => find(key).map(|opt| (opt, value)),
        None => match find(part) {
            Some(opt) if matches!(opt.form, OptionForm::Flag) => Some((opt, "yes")),
            Some(opt) => return Err(bad_value(info, opt, "")),
            None if first && looks_like_level(part) => find("level").map(|opt| (opt, part)),
            None => None,
        },
    };
    found.ok_or_else(|| unknown_option(info, part))
}

fn looks_like_level(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_digit() || b"+-".contains(&b))
}

/// Parses a value of this form; returns `None` if the text is not one.
fn parse_value(form: &OptionForm, text: &str) -> Option<OptionValue> {
    match form {
        OptionForm::Number(min, max) => {
            text.parse().ok().filter(|n| (*min..=*max).contains(n)).map(OptionValue::Number)
        }
        OptionForm::Flag => ["no", "yes"].iter().position(|word| *word == text).map(|n| OptionValue::Flag(n == 1)),
        OptionForm::Name(names) => {
            let position = names.iter().position(|name| *name == text)?;
            u8::try_from(position).ok().map(OptionValue::Name)
        }
        OptionForm::Set(names) => parse_set(names, text).map(OptionValue::Set),
        OptionForm::Filters(names) => match text {
            "none" => Some(OptionValue::Filters { bits: 0, auto: false }),
            "auto" => Some(OptionValue::Filters { bits: BcjFilters::AUTO, auto: true }),
            _ => parse_set(names, text).map(|bits| OptionValue::Filters { bits, auto: false }),
        },
        OptionForm::Dict => parse_dict(text).map(OptionValue::Dict),
    }
}

fn parse_set(names: &[(&str, u16)], text: &str) -> Option<u16> {
    text.split('+').try_fold(0, |bits, word| {
        let (_, bit) = names.iter().find(|(name, _)| *name == word)?;
        Some(bits | bit)
    })
}

fn parse_dict(text: &str) -> Option<DictSize> {
    if let Some(share) = text.strip_suffix('%') {
        return share.parse().ok().filter(|share| (1..=100).contains(share)).map(DictSize::Percent);
    }
    let (digits, shift) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse::<u32>().ok()?.checked_mul(1 << shift)?;
    DictSize::is_valid(bytes).then_some(DictSize::Bytes(bytes))
}

fn unknown_codec(name: &str) -> Error {
    let names: Vec<_> = CODECS.iter().map(|info| info.name).collect();
    Error::UnknownCodec { name: name.to_owned(), accepted: names.join(", ") }
}

fn unknown_option(info: &CodecInfo, part: &str) -> Error {
    let options: Vec<_> = info.options.iter().map(|opt| format!("{}={}", opt.name, opt.form.accepted())).collect();
    let accepted = if options.is_empty() { "no options".to_owned() } else { options.join("; ") };
    Error::option(info.name, format!("unknown option `{part}`; accepted: {accepted}"))
}

fn bad_value(info: &CodecInfo, opt: &CodecOption, text: &str) -> Error {
    let codec = info.name;
    let name = opt.name;
    let accepted = opt.form.accepted();
    let what = match opt.form {
        _ if text.is_empty() => format!("{name} needs a value"),
        OptionForm::Number(..) if text.parse::<i64>().is_ok() => format!("{name} {text} is out of range"),
        OptionForm::Number(..) => format!("{name} `{text}` is not a whole number"),
        OptionForm::Dict => format!("{name} `{text}` is not 2^n or 2^n + 2^(n+1) bytes"),
        _ => format!("{name} `{text}` is not a valid value"),
    };
    Error::option(codec, format!("{what}; accepted: {accepted}"))
}

/// Prints the canonical text: the level, and the options that differ from their defaults.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.codec().info();
        let defaults = defaults(info.codec);
        f.write_str(info.name)?;
        for opt in info.options {
            let Some(value) = self.settings.get(opt.name) else { continue };
            if opt.name == "level" {
                write!(f, ":{}", write_value(&opt.form, value))?;
            } else if Some(value) != defaults.get(opt.name) {
                write!(f, ":{}={}", opt.name, write_value(&opt.form, value))?;
            }
        }
        Ok(())
    }
}

fn write_value(form: &OptionForm, value: OptionValue) -> String {
    match (form, value) {
        (_, OptionValue::Number(n)) => n.to_string(),
        (_, OptionValue::Flag(on)) => if on { "yes" } else { "no" }.to_owned(),
        (OptionForm::Name(names), OptionValue::Name(n)) => {
            names.get(usize::from(n)).copied().unwrap_or_default().to_owned()
        }
        (_, OptionValue::Filters { auto: true, .. }) => "auto".to_owned(),
        (_, OptionValue::Filters { bits: 0, .. }) => "none".to_owned(),
        (
            OptionForm::Set(names) | OptionForm::Filters(names),
            OptionValue::Set(bits) | OptionValue::Filters { bits, .. },
        ) => {
            let chosen: Vec<_> = names.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
            chosen.join("+")
        }
        (_, OptionValue::Dict(DictSize::Percent(share))) => format!("{share}%"),
        (_, OptionValue::Dict(DictSize::Bytes(n))) if n % (1 << 20) == 0 => format!("{}M", n >> 20),
        (_, OptionValue::Dict(DictSize::Bytes(n))) if n % (1 << 10) == 0 => format!("{}K", n >> 10),
        (_, OptionValue::Dict(DictSize::Bytes(n))) => n.to_string(),
        // A value always comes from the option's own form.
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Choice {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn names_levels_and_options_are_read() {
        let xz = |level, extreme, dict, filters, auto, lc| Settings::Xz {
            level,
            extreme,
            dict,
            filters,
            auto,
            fixed: lc != 3,
            lc,
            lp: 0,
            pb: 1,
        };
        let lzma = |level, extreme, dict, pb| Settings::Lzma { level, extreme, dict, fixed: pb != 1, lc: 3, lp: 0, pb };
        let cases = [
            ("none", Settings::None),
            ("gzip", Settings::Gzip { level: 6, window: 15, strategies: 1 }),
            ("gzip:9:window=10,strategies=default+rle", Settings::Gzip { level: 9, window: 10, strategies: 9 }),
            ("gzip:window=8:strategies=fixed,level=2", Settings::Gzip { level: 2, window: 8, strategies: 16 }),
            ("xz", xz(6, false, None, 0, false, 3)),
            ("xz:9:extreme", xz(9, true, None, 0, false, 3)),
            ("xz:dict=96K,bcj=x86+riscv", xz(6, false, Some(DictSize::Bytes(96 << 10)), 129, false, 3)),
            ("xz:0:extreme=no:dict=1M:lc=4", xz(0, false, Some(DictSize::Bytes(1 << 20)), 0, false, 4)),
            ("xz:dict=100%:bcj=auto", xz(6, false, None, 251, true, 3)),
            ("deflate", Settings::Deflate { level: 9 }),
            ("lzma:1:dict=50%", lzma(1, false, Some(DictSize::Percent(50)), 1)),
            ("lzma:extreme:pb=2", lzma(6, true, None, 2)),
            ("lzo", Settings::Lzo { algorithm: 4, level: 8 }),
            ("lzo:9", Settings::Lzo { algorithm: 4, level: 9 }),
            ("lzo:algorithm=lzo1x_1_15", Settings::Lzo { algorithm: 3, level: 0 }),
            ("snappy", Settings::Snappy),
            ("lz4", Settings::Lz4 { acceleration: 1 }),
            ("lz4:acceleration=65537", Settings::Lz4 { acceleration: 65537 }),
            ("lz4hc", Settings::Lz4hc { level: 12 }),
            ("zstd", Settings::Zstd { level: 15, content_size: true }),
            ("zstd:-131072", Settings::Zstd { level: -131_072, content_size: true }),
            ("zstd:level=+3", Settings::Zstd { level: 3, content_size: true }),
            ("zstd:9:content-size=no", Settings::Zstd { level: 9, content_size: false }),
        ];
        for (text, settings) in cases {
            assert_eq!(*parse(text).settings(), settings, "{text}");
        }
    }

    #[test]
    fn errors_list_the_accepted_values() {
        let cases = [
            ("", "unknown codec ``; accepted: zstd, gzip, deflate, xz, lzma, lzo, snappy, lz4, lz4hc, none"),
            (
                "bzip2:9",
                "unknown codec `bzip2`; accepted: zstd, gzip, deflate, xz, lzma, lzo, snappy, lz4, lz4hc, none",
            ),
            ("zstd:23", "zstd: level 23 is out of range; accepted: -131072 to 22"),
            ("zstd:fast", "zstd: unknown option `fast`; accepted: level=-131072 to 22; content-size=yes or no"),
            ("zstd:level=best", "zstd: level `best` is not a whole number; accepted: -131072 to 22"),
            ("zstd:", "zstd: level needs a value; accepted: -131072 to 22"),
            ("zstd:3:4", "zstd: unknown option `4`; accepted: level=-131072 to 22; content-size=yes or no"),
            ("zstd:3:level=4", "zstd: level is given twice"),
            ("lz4:5", "lz4: unknown option `5`; accepted: acceleration=1 to 65537"),
            ("lz4:acceleration=0", "lz4: acceleration 0 is out of range; accepted: 1 to 65537"),
            ("snappy:1", "snappy: unknown option `1`; accepted: no options"),
            ("none:1", "none: unknown option `1`; accepted: no options"),
            ("lz4hc:13", "lz4hc: level 13 is out of range; accepted: 0 to 12"),
            ("gzip:window", "gzip: window needs a value; accepted: 8 to 15"),
            (
                "gzip:strategies=rle+fast",
                "gzip: strategies `rle+fast` is not a valid value; accepted: default, filtered, huffman, rle, fixed joined by +",
            ),
            ("gzip:12:window=14", "gzip: levels 10 to 12 need window=15 and strategies=default; accepted: 1 to 9"),
            ("xz:extreme=maybe", "xz: extreme `maybe` is not a valid value; accepted: yes or no"),
            (
                "xz:dict=100000",
                "xz: dict `100000` is not 2^n or 2^n + 2^(n+1) bytes; accepted: 8K to 64M, or 1% to 100% of the block",
            ),
            ("xz:lc=3,lp=2", "xz: lc=3 and lp=2 add up to more than 4"),
            ("lzma:lc=0,lp=4:lc=1", "lzma: lc is given twice"),
            ("lzma:bits=auto:pb=2", "lzma: bits=auto chooses lc, lp and pb; accepted: bits=auto, or lc, lp and pb"),
            ("lzma:lp=4,lc=1", "lzma: lc=1 and lp=4 add up to more than 4"),
            ("lzo:3:algorithm=lzo1x_1", "lzo: lzo1x_1 has no levels; accepted: only with lzo1x_999"),
            (
                "lzo:algorithm=lzo2a",
                "lzo: algorithm `lzo2a` is not a valid value; accepted: lzo1x_1, lzo1x_1_11, lzo1x_1_12, lzo1x_1_15, lzo1x_999",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<Choice>().unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn the_defaults_of_the_table_are_valid_values() {
        for info in CODECS {
            for opt in info.options {
                assert!(parse_value(&opt.form, opt.default).is_some(), "{}: {}", info.name, opt.name);
            }
            let default = Choice::new(info.codec);
            assert_eq!(parse(info.name), default);
            assert_eq!(parse(&default.to_string()), default);
        }
    }

    #[test]
    fn the_canonical_text_is_short() {
        let cases = [
            ("xz:level=6:bits=auto,dict=100%:bcj=none", "xz:6"),
            ("xz:pb=1", "xz:6:bits=fixed"),
            ("lzma:bits=fixed:pb=2", "lzma:6:pb=2"),
            ("xz:extreme:9:dict=1024K", "xz:9:extreme=yes:dict=1M"),
            ("lzo:algorithm=lzo1x_1", "lzo:algorithm=lzo1x_1"),
            ("gzip:strategies=rle+default", "gzip:6:strategies=default+rle"),
            ("none", "none"),
        ];
        for (text, canonical) in cases {
            // A level without its key comes first.
            let text = text.replace("xz:extreme:9", "xz:extreme:level=9");
            assert_eq!(parse(&text).to_string(), canonical);
        }
    }

    /// Any value of a form, as text.
    fn value_of(form: OptionForm) -> BoxedStrategy<String> {
        let set = |names: &'static [(&'static str, u16)]| {
            proptest::sample::subsequence(names, 1..=names.len())
                .prop_map(|some| some.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("+"))
        };
        match form {
            OptionForm::Number(min, max) => (min..=max).prop_map(|n| n.to_string()).boxed(),
            OptionForm::Flag => proptest::sample::select(vec!["yes", "no"]).prop_map(str::to_owned).boxed(),
            OptionForm::Name(names) => proptest::sample::select(names).prop_map(str::to_owned).boxed(),
            OptionForm::Set(names) => set(names).boxed(),
            OptionForm::Filters(names) => {
                prop_oneof![set(names), Just("auto".to_owned()), Just("none".to_owned())].boxed()
            }
            OptionForm::Dict => prop_oneof![
                (1..=100u32).prop_map(|share| format!("{share}%")),
                (13..=26u32).prop_map(|log| (1u32 << log).to_string()),
                (12..=24u32).prop_map(|log| (3u32 << log).to_string()),
            ]
            .boxed(),
        }
    }

    /// Any text of a codec and some of its options; not all of them can be combined.
    fn text() -> impl Strategy<Value = String> {
        (0..CODECS.len()).prop_flat_map(|row| {
            let info = &CODECS[row];
            let options: Vec<_> = info
                .options
                .iter()
                .map(|opt| proptest::option::of(value_of(opt.form).prop_map(|value| format!(":{}={value}", opt.name))))
                .collect();
            options.prop_map(|parts| parts.into_iter().flatten().fold(info.name.to_owned(), |text, part| text + &part))
        })
    }

    proptest! {
        #[test]
        fn canonical_texts_parse_back(text in text()) {
            if let Ok(choice) = text.parse::<Choice>() {
                prop_assert_eq!(choice.to_string().parse::<Choice>(), Ok(choice));
            }
        }

        #[test]
        fn any_text_is_a_choice_or_a_usage_error(text in "\\PC{0,40}") {
            let result: Result<Choice> = text.parse();
            let understood = matches!(result, Ok(_) | Err(Error::UnknownCodec { .. } | Error::InvalidOption { .. }));
            prop_assert!(understood);
        }
    }
    #[test]
    fn a_level_as_a_number_is_that_of_the_text() {
        for (codec, level, expected) in [
            (Codec::Zstd, -5, "zstd:-5"),
            (Codec::Xz, 9, "xz:9"),
            (Codec::Lzo, 1, "lzo:1"),
            (Codec::Lz4hc, 12, "lz4hc:12"),
        ] {
            assert_eq!(Choice::new(codec).with_level(level).unwrap(), parse(expected));
        }
        assert_eq!(parse("xz:bcj=x86").with_level(2).unwrap(), parse("xz:2:bcj=x86"));
        for (codec, level) in [(Codec::Zstd, 23), (Codec::Xz, -1), (Codec::Lz4, 1), (Codec::None, 1)] {
            let refused = Choice::new(codec).with_level(level).unwrap_err().to_string();
            assert!(refused.contains("accepted"), "{refused}");
        }
    }
}
