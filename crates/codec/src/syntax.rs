//! The text of a choice: `NAME[:LEVEL][:key=value[,key=value...]]`, read and written by the table.

use std::fmt;
use std::str::FromStr;

use crate::settings::{Bcj, Dict, Value};
use crate::table::{CODECS, Form, Info, Opt};
use crate::{Choice, Codec, Error, Result, Settings};

/// Settings of a codec with every option at its default.
pub(crate) fn defaults(codec: Codec) -> Settings {
    let mut settings = Settings::blank(codec);
    for opt in codec.info().options {
        // The defaults are texts, so that help and parser cannot differ; a test reads each of them.
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
                return Err(Error::Usage(format!("{name}: {} is given twice", opt.name)));
            }
            let value = parse_value(&opt.form, text).ok_or_else(|| bad_value(info, opt, text))?;
            settings.set(opt.name, value);
            given.push(opt.name);
        }
        settings.settle(|name| given.contains(&name))?;
        Ok(Choice { settings })
    }
}

/// Finds the option a part means: `key=value`, a flag's key alone, or first of all a level.
fn split<'t>(info: &'static Info, part: &'t str, first: bool) -> Result<(&'static Opt, &'t str)> {
    let find = |name: &str| info.options.iter().find(|opt| opt.name == name);
    let found = match part.split_once('=') {
        Some((key, value)) => find(key).map(|opt| (opt, value)),
        None => match find(part) {
            Some(opt) if matches!(opt.form, Form::Flag) => Some((opt, "yes")),
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

/// A value of this form, or nothing if the text is not one.
fn parse_value(form: &Form, text: &str) -> Option<Value> {
    match form {
        Form::Number(min, max) => text.parse().ok().filter(|n| (*min..=*max).contains(n)).map(Value::Number),
        Form::Flag => ["no", "yes"].iter().position(|word| *word == text).map(|n| Value::Flag(n == 1)),
        Form::Name(names) => {
            let position = names.iter().position(|name| *name == text)?;
            u8::try_from(position).ok().map(Value::Name)
        }
        Form::Set(names) => parse_set(names, text).map(Value::Set),
        Form::Filters(names) => match text {
            "none" => Some(Value::Filters { bits: 0, auto: false }),
            "auto" => Some(Value::Filters { bits: Bcj::ALL, auto: true }),
            _ => parse_set(names, text).map(|bits| Value::Filters { bits, auto: false }),
        },
        Form::Dict => parse_dict(text).map(Value::Dict),
    }
}

fn parse_set(names: &[(&str, u16)], text: &str) -> Option<u16> {
    text.split('+').try_fold(0, |bits, word| {
        let (_, bit) = names.iter().find(|(name, _)| *name == word)?;
        Some(bits | bit)
    })
}

fn parse_dict(text: &str) -> Option<Dict> {
    if let Some(share) = text.strip_suffix('%') {
        return share.parse().ok().filter(|share| (1..=100).contains(share)).map(Dict::Percent);
    }
    let (digits, shift) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
    };
    let bytes = digits.parse::<u32>().ok()?.checked_mul(1 << shift)?;
    Dict::is_valid(bytes).then_some(Dict::Bytes(bytes))
}

fn unknown_codec(name: &str) -> Error {
    let names: Vec<_> = CODECS.iter().map(|info| info.name).collect();
    Error::Usage(format!("unknown codec `{name}`; accepted: {}", names.join(", ")))
}

fn unknown_option(info: &Info, part: &str) -> Error {
    let options: Vec<_> = info.options.iter().map(|opt| format!("{}={}", opt.name, opt.form.accepted())).collect();
    let accepted = if options.is_empty() { "no options".to_owned() } else { options.join("; ") };
    Error::Usage(format!("{}: unknown option `{part}`; accepted: {accepted}", info.name))
}

fn bad_value(info: &Info, opt: &Opt, text: &str) -> Error {
    let (codec, name, accepted) = (info.name, opt.name, opt.form.accepted());
    let what = match opt.form {
        _ if text.is_empty() => format!("{name} needs a value"),
        Form::Number(..) if text.parse::<i64>().is_ok() => format!("{name} {text} is out of range"),
        Form::Number(..) => format!("{name} `{text}` is not a whole number"),
        Form::Dict => format!("{name} `{text}` is not 2^n or 2^n + 2^(n+1) bytes"),
        _ => format!("{name} `{text}` is not understood"),
    };
    Error::Usage(format!("{codec}: {what}; accepted: {accepted}"))
}

/// The canonical text: the level, and those options that differ from their defaults.
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

fn write_value(form: &Form, value: Value) -> String {
    match (form, value) {
        (_, Value::Number(n)) => n.to_string(),
        (_, Value::Flag(on)) => if on { "yes" } else { "no" }.to_owned(),
        (Form::Name(names), Value::Name(n)) => names.get(usize::from(n)).copied().unwrap_or_default().to_owned(),
        (_, Value::Filters { auto: true, .. }) => "auto".to_owned(),
        (_, Value::Filters { bits: 0, .. }) => "none".to_owned(),
        (Form::Set(names) | Form::Filters(names), Value::Set(bits) | Value::Filters { bits, .. }) => {
            let chosen: Vec<_> = names.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
            chosen.join("+")
        }
        (_, Value::Dict(Dict::Percent(share))) => format!("{share}%"),
        (_, Value::Dict(Dict::Bytes(n))) if n % (1 << 20) == 0 => format!("{}M", n >> 20),
        (_, Value::Dict(Dict::Bytes(n))) if n % (1 << 10) == 0 => format!("{}K", n >> 10),
        (_, Value::Dict(Dict::Bytes(n))) => n.to_string(),
        // A value always comes from the option's own form.
        _ => String::new(),
    }
}
