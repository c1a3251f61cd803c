//! Every bound of this crate, with its reason.

use curfew_domain::limits::INLINE_CONTENT_BYTES_MAX;

/// Subject, text and HTML together, inline or rendered, in bytes: what is sealed in the job's row (CONTRACT).
pub const CONTENT_BYTES_MAX: usize = INLINE_CONTENT_BYTES_MAX;
/// A value bound for a header, in bytes. Mail clients cut far earlier; above it somebody has put a body into a subject.
pub const HEADER_TEXT_BYTES_MAX: usize = 2048;
/// A List-Unsubscribe URI, in bytes, so that its header line stays under RFC 5322's 998 octets.
pub const UNSUBSCRIBE_BYTES_MAX: usize = 900;
/// One file of a template, in bytes: what can't fit into a letter need not be read.
pub const TEMPLATE_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Files of one version of a template; a folder with more is no template.
pub const TEMPLATE_FILES_MAX: usize = 64;
/// Versions of templates in one folder.
pub const TEMPLATES_MAX: usize = 10_000;
/// Steps of the template engine for one part of a letter, so that a loop in a template can't hold the door open.
pub const RENDER_STEPS_MAX: u64 = 1_000_000;
/// Includes within includes.
pub const INCLUDE_DEPTH_MAX: usize = 32;
/// An artifact's URI, in bytes.
pub const URI_BYTES_MAX: usize = 1024;
/// An artifact, in bytes, where the configuration says nothing: relays refuse more (25 MiB is the usual SIZE, before base64).
pub const ARTIFACT_BYTES_MAX: u64 = 25 * 1024 * 1024;
/// Names offered to somebody who misspelt a zone.
pub const ZONES_OFFERED: usize = 3;

const _: () = assert!(HEADER_TEXT_BYTES_MAX < CONTENT_BYTES_MAX, "a subject is a small part of a letter");
const _: () = assert!(UNSUBSCRIBE_BYTES_MAX + "List-Unsubscribe: <>".len() <= 998, "a header line holds at most 998 octets");
