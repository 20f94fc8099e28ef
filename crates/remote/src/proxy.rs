//! Proxies from the environment, by the rules that curl follows.

use crate::url::HttpUrl;

/// Returns the proxy to use for `url`, if any. `variable` looks up the environment.
pub(crate) fn find_proxy(url: &HttpUrl, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
    if first(&["no_proxy", "NO_PROXY"]).is_some_and(|list| excepts(&list, url.host())) {
        return None;
    }
    // HTTP_PROXY is what a request's header `Proxy` becomes in CGI programs: only the other spelling counts.
    let own: &[&str] = if url.is_https() { &["https_proxy", "HTTPS_PROXY"] } else { &["http_proxy"] };
    let proxy = first(own).or_else(|| first(&["all_proxy", "ALL_PROXY"]))?;
    Some(if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
}

/// Returns true if a list of hosts and domains names `host`.
fn excepts(list: &str, host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.split_once("://").map_or(entry, |(_, rest)| rest).to_ascii_lowercase();
        let domain = entry.trim_start_matches('*').trim_start_matches('.').trim_matches(['[', ']']);
        entry == "*" || host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_depends_on_scheme_and_host() {
        let proxy = |url: &str, set: &[(&str, &str)]| {
            let url = HttpUrl::parse(url).unwrap();
            find_proxy(&url, |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let all = [("http_proxy", "p:1"), ("HTTPS_PROXY", "http://q:2"), ("no_proxy", "localhost, .internal,::1")];
        for (url, expected) in [
            ("http://example.com/", Some("http://p:1")),
            ("https://example.com/", Some("http://q:2")),
            ("https://localhost:8443/", None),
            ("https://a.internal/", None),
            ("https://internal/", None),
            ("https://notinternal/", Some("http://q:2")),
            ("http://[::1]:80/", None),
        ] {
            assert_eq!(proxy(url, &all).as_deref(), expected, "{url}");
        }
        assert_eq!(proxy("http://a/", &[("HTTP_PROXY", "p:1")]), None);
        assert_eq!(proxy("http://a/", &[("ALL_PROXY", "p:1")]).as_deref(), Some("http://p:1"));
        assert_eq!(proxy("http://a/", &[("ALL_PROXY", "p:1"), ("NO_PROXY", "*")]), None);
    }
}
