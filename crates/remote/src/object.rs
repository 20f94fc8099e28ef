//! One version of a remote object: opened in one round trip, then read by ranges that prove to be of that version.

use std::io::Read;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use packfs_blocks::mutex;
use packfs_blocks::threads;
use ureq::Body;
use ureq::http::{HeaderMap, Response};

use crate::RemoteOptions;
use crate::error::{Error, FailureReason, Result};
use crate::http::{AttemptFailure, CUT, HttpClient, header_text};
use crate::origin::ObjectOrigin;
use crate::progress::ProgressRule;
use crate::retry::RetryPolicy;
use crate::url::HttpUrl;
use crate::version::{ObjectVersion, VersionComparison};

/// Largest object that is read whole where the server does not answer ranges.
pub(crate) const WHOLE_MAX: u64 = 4 << 20;
/// Number of times that tokens are renewed for one request: others may have used up a new one before it is sent.
const RENEWALS_MAX: u32 = 3;
/// Number of redirections followed, as browsers do.
const REDIRECTIONS: usize = 10;
/// Pause before an object is opened again that was modified in this second: a little longer than the granularity of
/// dates.
const FRESH_PAUSE: Duration = Duration::from_millis(1100);
/// Length of reads from a connection.
const PIECE: usize = 64 << 10;

/// An object that was opened.
#[derive(Debug)]
pub(crate) struct VersionedObject {
    client: HttpClient,
    origin: Box<dyn ObjectOrigin>,
    len: u64,
    version: ObjectVersion,
    /// The last redirection's target, which saves a round trip for each range until it expires.
    target: Mutex<Option<HttpUrl>>,
    retry: RetryPolicy,
    allow_unversioned: bool,
}

/// First bytes of an object, with the marks and the length that the answer gives.
#[derive(Default)]
struct FirstAnswer {
    version: ObjectVersion,
    total: u64,
    bytes: Vec<u8>,
    /// True if the object may still be modified without a new mark.
    may_change_unseen: bool,
}

/// The last bytes of an object.
struct LastAnswer {
    version: ObjectVersion,
    start: u64,
    bytes: Vec<u8>,
    may_change_unseen: bool,
}

/// An opened object with the bytes that came with it, each with its offset.
pub(crate) struct OpenedObject {
    pub(crate) object: VersionedObject,
    pub(crate) bytes: Vec<(u64, Vec<u8>)>,
}

/// The answer to a request for a range.
struct RangeAnswer {
    start: u64,
    len: u64,
    total: u64,
    body: Body,
}

/// The range that a request asks for.
#[derive(Debug, Clone)]
enum RangeRequest {
    Bytes(Range<u64>),
    Last(u64),
}

impl VersionedObject {
    /// Opens an object, with its first and last bytes: both are requested at the same time, the last ones only if `tail`
    /// is not 0.
    pub(crate) fn open(
        origin: Box<dyn ObjectOrigin>,
        options: &RemoteOptions,
        head: u64,
        tail: u64,
    ) -> Result<OpenedObject> {
        let mut object = VersionedObject {
            client: HttpClient::new(options),
            retry: RetryPolicy::new(origin.name(), options),
            origin,
            len: 0,
            version: ObjectVersion::default(),
            target: Mutex::default(),
            allow_unversioned: options.allow_unversioned,
        };
        let prepared = object.retry.repeat_unnamed(|_| object.origin.prepare(&object.client));
        prepared.map_err(|why| Error::new(object.retry.name(), why))?;
        let (first, last) = thread::scope(|scope| {
            let last = match tail {
                0 => None,
                _ => threads::named("packfs-remote").start_in(scope, || object.read_last(tail)).ok(),
            };
            let first = object.read_first(head);
            // Without a thread, or after a failure, the last bytes are read when they are needed.
            (first, last.and_then(|last| last.join().ok()).flatten())
        });
        let FirstAnswer { version, total, bytes, .. } = first.map_err(|why| Error::new(object.retry.name(), why))?;
        if let Some(len) = object.origin.len().filter(|len| *len != total) {
            let why = format!("an object of {total} bytes, but its manifest says {len}");
            return Err(Error::new(object.retry.name(), FailureReason::Contradiction(why)));
        }
        let is_complete = bytes.len() as u64 == total;
        // Of an object that came as a whole, nothing more is read, so it needs no version.
        if !is_complete && !version.is_marked() && !object.accepts_unproven() {
            return Err(Error::new(object.retry.name(), FailureReason::Unversioned));
        }
        let mut parts = vec![(0, bytes)];
        // Speculative: whatever is odd about it, the range will be read again when it is needed.
        if let Some(last) = last
            && !last.may_change_unseen
            && match version.compare(&last.version) {
                VersionComparison::Same => true,
                VersionComparison::Other => false,
                VersionComparison::Unproven => object.accepts_unproven(),
            }
            && last.start + last.bytes.len() as u64 == total
        {
            parts.push((last.start, last.bytes));
        }
        (object.version, object.len) = (version, total);
        Ok(OpenedObject { object, bytes: parts })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the name for messages.
    pub(crate) fn name(&self) -> &str {
        self.retry.name()
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.client.requests()
    }

    /// Returns a text that no other bytes have; `None` if the server does not tell versions apart reliably.
    pub(crate) fn identity(&self) -> Option<String> {
        let what = self.origin.digest().or_else(|| self.version.strong_tag())?;
        Some(format!("{}\n{what}\n{}", self.origin.identity(), self.len))
    }

    /// Returns true if answers need not prove their version: the digest in the address names the bytes, or the options
    /// take the risk.
    fn accepts_unproven(&self) -> bool {
        self.allow_unversioned || self.origin.digest().is_some()
    }

    /// Reads the first bytes once the object can no longer change without another mark.
    fn read_first(&self, head: u64) -> std::result::Result<FirstAnswer, FailureReason> {
        let mut first = self.read_first_bytes(head)?;
        for _ in 0..self.retry.tries() {
            let is_complete = first.bytes.len() as u64 == first.total;
            if is_complete || !first.may_change_unseen || self.accepts_unproven() {
                return Ok(first);
            }
            thread::sleep(FRESH_PAUSE);
            let next = self.read_first_bytes(head)?;
            let is_same = next.total == first.total && first.version.compare(&next.version) == VersionComparison::Same;
            // The clocks of the server may differ; but by each of them, the second of the modification is over now.
            first = FirstAnswer { may_change_unseen: next.may_change_unseen && !is_same, ..next };
        }
        if first.may_change_unseen { Err(FailureReason::Unsettled) } else { Ok(first) }
    }

    /// Reads the first bytes: `head` of them, or all if the server does not know ranges. After a cut connection it goes
    /// on where that ended.
    fn read_first_bytes(&self, head: u64) -> std::result::Result<FirstAnswer, FailureReason> {
        let mut first = FirstAnswer::default();
        self.retry.repeat_unnamed(|count| {
            if first.bytes.is_empty() {
                let done = self.begin_first(head, &mut first);
                count.note_bytes(first.bytes.len());
                return done;
            }
            let FirstAnswer { version, total, bytes, .. } = &mut first;
            let missing = bytes.len() as u64..head.min(*total);
            self.fetch_once(missing, version, *total, &mut |piece| {
                count.note_bytes(piece.len());
                bytes.extend_from_slice(piece);
            })
        })?;
        Ok(first)
    }

    /// Requests the first bytes. After a failure, `first` has those that came if the rest can prove to belong to them.
    fn begin_first(&self, head: u64, first: &mut FirstAnswer) -> std::result::Result<(), AttemptFailure> {
        let ask = RangeRequest::Bytes(0..head);
        let response = self.send(&ask, &ObjectVersion::default())?;
        let headers = response.headers();
        first.version = ObjectVersion::of(headers);
        first.may_change_unseen = first.version.may_change_unseen(headers);
        match response.status().as_u16() {
            206 => {
                let answer = RangeAnswer::of(response, &ask, None)?;
                first.total = answer.total;
                let done = answer.pass_on(&self.client.progress, &mut |piece| first.bytes.extend_from_slice(piece));
                let is_proven = first.version.is_marked() && !first.may_change_unseen;
                if done.is_err() && !is_proven && !self.accepts_unproven() {
                    first.bytes.clear();
                }
                done
            }
            200 => {
                first.bytes = read_whole(response, &self.client.progress)?;
                first.total = first.bytes.len() as u64;
                Ok(())
            }
            // An empty object has no first byte.
            416 if header_text(headers, "content-range") == Some("bytes */0") => {
                first.total = 0;
                Ok(())
            }
            status => Err(AttemptFailure::of_status(status, headers)),
        }
    }

    /// Reads the last bytes in one attempt; `None` if it fails.
    fn read_last(&self, tail: u64) -> Option<LastAnswer> {
        let ask = RangeRequest::Last(tail);
        let response = self.send(&ask, &ObjectVersion::default()).ok()?;
        let version = ObjectVersion::of(response.headers());
        let may_change_unseen = version.may_change_unseen(response.headers());
        let answer = (response.status() == 206).then(|| RangeAnswer::of(response, &ask, None).ok()).flatten()?;
        let start = answer.start;
        Some(LastAnswer { version, start, bytes: answer.all(&self.client.progress).ok()?, may_change_unseen })
    }

    /// Reads a range and passes its bytes on in order. After a cut connection it goes on where that ended.
    pub(crate) fn fetch(&self, range: &Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut at = range.start;
        let read = self.retry.repeat_unnamed(|count| {
            self.fetch_once(at..range.end, &self.version, self.len, &mut |bytes| {
                at += bytes.len() as u64;
                count.note_bytes(bytes.len());
                take(bytes);
            })
        });
        read.map_err(|why| Error::new(self.retry.name(), why).at(range.clone()))
    }

    /// Reads a range of `version`, an object of `len` bytes.
    fn fetch_once(
        &self,
        range: Range<u64>,
        version: &ObjectVersion,
        len: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> std::result::Result<(), AttemptFailure> {
        let ask = RangeRequest::Bytes(range);
        let response = self.send(&ask, version)?;
        let compared = version.compare(&ObjectVersion::of(response.headers()));
        match response.status().as_u16() {
            200 | 206 if compared == VersionComparison::Other => Err(FailureReason::Changed.into()),
            206 => {
                let answer = RangeAnswer::of(response, &ask, Some(len))?;
                if compared == VersionComparison::Unproven && !self.accepts_unproven() {
                    return Err(FailureReason::Unproven.into());
                }
                answer.pass_on(&self.client.progress, take)
            }
            200 => {
                Err(FailureReason::Contradiction("the whole object, though it has answered ranges before".into())
                    .into())
            }
            // The condition of the request failed, or the object ends before the range.
            412 | 416 => Err(FailureReason::Changed.into()),
            status => Err(AttemptFailure::of_status(status, response.headers())),
        }
    }

    /// Sends a request, follows redirections and renews credentials where the origin can.
    fn send(&self, ask: &RangeRequest, version: &ObjectVersion) -> std::result::Result<Response<Body>, AttemptFailure> {
        let known = mutex::lock(&self.target).clone();
        if let Some(target) = known {
            let answer = self.client.get(&target, &range_headers(ask, version, target.auth().map(Into::into)));
            let is_right = |response: &Response<Body>| matches!(response.status().as_u16(), 200 | 206 | 412 | 416);
            if answer.as_ref().is_ok_and(is_right) {
                return answer;
            }
            // A target may be valid for minutes only, and its host may be gone when the address leads to another one.
            *mutex::lock(&self.target) = None;
            answer?;
        }
        let mut renewals = 0;
        loop {
            let request = self.origin.request().map_err(AttemptFailure::Final)?;
            let mut all = range_headers(ask, version, request.url.auth().map(Into::into));
            all.extend(request.headers.iter().cloned());
            let response = self.client.get(&request.url, &all)?;
            let status = response.status().as_u16();
            let answer = response.headers();
            // A token that ran out gives 401. With any of the other statuses, a bucket may name the region that it is
            // in.
            let most = if status == 401 { RENEWALS_MAX } else { 1 };
            let refused = matches!(status, 301 | 307 | 400 | 401 | 403) && renewals < most;
            if refused && self.origin.renew(&self.client, &request, status, answer)? {
                renewals += 1;
                continue;
            }
            return self.follow(request.url, response, ask, version);
        }
    }

    fn follow(
        &self,
        mut url: HttpUrl,
        mut response: Response<Body>,
        ask: &RangeRequest,
        version: &ObjectVersion,
    ) -> std::result::Result<Response<Body>, AttemptFailure> {
        for _ in 0..REDIRECTIONS {
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let to = header_text(response.headers(), "location").ok_or(FailureReason::Redirect("to nowhere".into()))?;
            url = url.join(to).map_err(FailureReason::Redirect)?;
            // With credentials only if the new address has its own: those of the origin are for its server.
            response = self.client.get(&url, &range_headers(ask, version, url.auth().map(Into::into)))?;
            if response.status().is_success() {
                *mutex::lock(&self.target) = Some(url.clone());
            }
        }
        match response.status().as_u16() {
            301 | 302 | 303 | 307 | 308 => {
                Err(FailureReason::Redirect(format!("more than {REDIRECTIONS} times")).into())
            }
            _ => Ok(response),
        }
    }
}

/// Returns the headers of a request for a range.
fn range_headers(ask: &RangeRequest, version: &ObjectVersion, auth: Option<String>) -> Vec<(&'static str, String)> {
    let range = match ask {
        RangeRequest::Bytes(range) => format!("bytes={}-{}", range.start, range.end - 1),
        RangeRequest::Last(len) => format!("bytes=-{len}"),
    };
    let auth = auth.map(|auth| ("Authorization", auth));
    [Some(("Range", range)), version.condition(), auth].into_iter().flatten().collect()
}

/// Reads an object that came whole.
fn read_whole(response: Response<Body>, progress: &ProgressRule) -> std::result::Result<Vec<u8>, AttemptFailure> {
    let told = response.body().content_length();
    if told.is_some_and(|len| len > WHOLE_MAX) {
        return Err(FailureReason::NoRanges { max: WHOLE_MAX }.into());
    }
    check_encoding(response.headers())?;
    let mut bytes = Vec::new();
    // One byte more, which shows that the object is too long.
    let mut body = progress.watch(response.into_body().into_reader()).take(WHOLE_MAX + 1);
    body.read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        len if len > WHOLE_MAX => Err(FailureReason::NoRanges { max: WHOLE_MAX }.into()),
        len if told.is_some_and(|told| told != len) => Err(AttemptFailure::network(CUT)),
        _ => Ok(bytes),
    }
}

fn check_encoding(headers: &HeaderMap) -> std::result::Result<(), AttemptFailure> {
    match header_text(headers, "content-encoding").filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        Some(encoding) => {
            Err(FailureReason::Contradiction(format!("encoded as {encoding}, which was not requested")).into())
        }
        None => Ok(()),
    }
}

impl RangeAnswer {
    /// Checks the headers of a partial answer against the request, and the length of the object if that is known.
    fn of(response: Response<Body>, ask: &RangeRequest, len: Option<u64>) -> std::result::Result<Self, AttemptFailure> {
        check_encoding(response.headers())?;
        let Some((start, end, total)) = header_text(response.headers(), "content-range").and_then(content_range) else {
            return Err(FailureReason::Contradiction("a part of the object without saying which".into()).into());
        };
        if len.is_some_and(|len| len != total) {
            return Err(FailureReason::Changed.into());
        }
        let (from, to) = match ask {
            RangeRequest::Bytes(range) => (range.start, range.end.min(total)),
            RangeRequest::Last(len) => (total.saturating_sub(*len), total),
        };
        let told = response.body().content_length();
        if (start, end) != (from, to) || told.is_some_and(|told| told != end - start) {
            let told = told.map_or(String::new(), |told| format!(", in {told} bytes"));
            let why = format!("bytes {start} to {end} of {total}{told}, where {from} to {to} were requested");
            return Err(FailureReason::Contradiction(why).into());
        }
        Ok(RangeAnswer { start, len: end - start, total, body: response.into_body() })
    }

    fn all(self, progress: &ProgressRule) -> std::result::Result<Vec<u8>, AttemptFailure> {
        let mut bytes = Vec::new();
        self.pass_on(progress, &mut |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// Reads the body to its end, which lets the connection be used again, and passes it on.
    fn pass_on(self, progress: &ProgressRule, take: &mut dyn FnMut(&[u8])) -> std::result::Result<(), AttemptFailure> {
        let mut left = self.len;
        let mut piece = vec![0; PIECE];
        let mut body = progress.watch(self.body.into_reader());
        loop {
            let read = body.read(&mut piece);
            // All has come: a connection that is cut before the mark of the end has lost nothing.
            if left == 0 && read.is_err() {
                return Ok(());
            }
            match read? {
                0 if left > 0 => return Err(AttemptFailure::network(CUT)),
                0 => return Ok(()),
                got if got as u64 > left => {
                    return Err(FailureReason::Contradiction("more bytes than were requested".into()).into());
                }
                got => {
                    left -= got as u64;
                    take(&piece[..got]);
                }
            }
        }
    }
}

/// Splits the header `Content-Range`: first byte, byte after the last, length of the object.
fn content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last, total): (u64, u64, u64) = (first.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    (first <= last && last < total).then_some((first, last + 1, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_answers_are_checked() {
        assert_eq!(content_range("bytes 0-9/10"), Some((0, 10, 10)));
        for wrong in ["bytes 0-10/10", "bytes 5-4/10", "bytes */10", "bytes 0-9/*", "0-9/10", "bytes -1-9/10"] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
        assert_eq!(content_range(&format!("bytes 0-{}/{}", u64::MAX - 1, u64::MAX)), Some((0, u64::MAX, u64::MAX)));
    }
}
