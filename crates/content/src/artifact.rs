//! Artifacts: files under allowed roots, named by URI, read whole and hashed. Nothing else on this machine can be named.
//!
//! `file:reports/R-1042.pdf` is a path relative to the folder of the configuration, under a root such as `file:reports/`. The text of the
//! URI is taken literally: nothing is percent-decoded, so that what is checked is what is opened.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use crate::error::{ArtifactError, ContentError};
use crate::limits::{ARTIFACT_BYTES_MAX, URI_BYTES_MAX};

const SCHEME: &str = "file:";

/// The allowed roots and the size limit.
#[derive(Clone, Debug)]
pub struct Artifacts {
    base: PathBuf,
    /// Each root's path as its parts, relative to `base`; an absolute root begins with an empty part.
    roots: Vec<Vec<String>>,
    bytes_max: u64,
}

/// A file as it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Their SHA-256, lower-case hex.
    pub sha256: String,
}

impl Artifacts {
    /// Roots such as `file:reports/`, relative to `base` (the folder of the configuration file) unless absolute.
    ///
    /// # Errors
    /// `Root`: not a `file:` URI of a folder, or with `.` or `..` in it.
    pub fn new(base: &Path, roots: &[String]) -> Result<Self, ArtifactError> {
        let parsed = roots.iter().map(|root| {
            let path = root.strip_prefix(SCHEME).ok_or(ArtifactError::Root("a root is a file: URI, for instance file:reports/"))?;
            let parts = parts(path.trim_end_matches('/')).map_err(|_fault| ArtifactError::Root("a root's path has an empty part, `.` or `..`"))?;
            if parts.len() == 1 && parts[0].is_empty() {
                return Err(ArtifactError::Root("a root names a folder, never the whole file system"));
            }
            Ok(parts)
        });
        Ok(Self { base: base.to_owned(), roots: parsed.collect::<Result<_, _>>()?, bytes_max: ARTIFACT_BYTES_MAX })
    }

    /// The same roots with another size limit, in bytes.
    pub fn with_bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// The door's check, without looking at the file: whether the URI names something under an allowed root.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_uri(&self, uri: &str) -> Result<(), ArtifactError> {
        self.locate(uri).map(|_located| ())
    }

    /// Reads and hashes an artifact; `pinned` is the SHA-256 it must have, if one is known. Blocking work runs on tokio's blocking pool;
    /// a dropped future leaves nothing behind.
    ///
    /// # Errors
    /// `Forbidden` (also where a link leads out of the root), `Missing`, `Unreadable`, `TooLarge`, `Mismatch`.
    pub async fn read(&self, uri: &str, pinned: Option<&str>) -> Result<Artifact, ArtifactError> {
        let (root, path) = self.locate(uri)?;
        let root = tokio::fs::canonicalize(root).await.map_err(unavailable)?;
        let path = tokio::fs::canonicalize(path).await.map_err(unavailable)?;
        if !path.starts_with(&root) {
            return Err(ArtifactError::Forbidden("the artifact is a link that leads out of its root"));
        }
        // Asked before it is opened: opening a pipe would wait for its writer.
        let metadata = tokio::fs::metadata(&path).await.map_err(unavailable)?;
        if !metadata.is_file() {
            return Err(ArtifactError::Forbidden("the artifact is not a regular file"));
        }
        if metadata.len() > self.bytes_max {
            return Err(ArtifactError::TooLarge { limit: self.bytes_max });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        let file = tokio::fs::File::open(&path).await.map_err(unavailable)?;
        // One byte more than allowed tells a file that grew since it was measured.
        file.take(self.bytes_max + 1).read_to_end(&mut bytes).await.map_err(unavailable)?;
        if bytes.len() as u64 > self.bytes_max {
            return Err(ArtifactError::TooLarge { limit: self.bytes_max });
        }
        let sha256 = hex::encode(Sha256::digest(&bytes));
        match pinned {
            Some(pinned) if !pinned.eq_ignore_ascii_case(&sha256) => Err(ArtifactError::Mismatch { found: sha256 }),
            Some(_) | None => Ok(Artifact { bytes, sha256 }),
        }
    }

    /// The root that holds the URI, and the path it names.
    fn locate(&self, uri: &str) -> Result<(PathBuf, PathBuf), ArtifactError> {
        let forbidden = |why| Err(ArtifactError::Forbidden(why));
        if uri.len() > URI_BYTES_MAX {
            return forbidden("the URI is longer than 1,024 bytes");
        }
        let Some(path) = uri.strip_prefix(SCHEME) else {
            return forbidden("only file: URIs under the configured roots are allowed");
        };
        let parts = parts(path).map_err(ArtifactError::Forbidden)?;
        let under = |root: &&Vec<String>| parts.len() > root.len() && parts.starts_with(root);
        let Some(root) = self.roots.iter().find(under) else {
            return forbidden("not under a root of [artifacts] roots");
        };
        Ok((self.path_of(root), self.path_of(&parts)))
    }

    fn path_of(&self, parts: &[String]) -> PathBuf {
        match parts {
            [first, rest @ ..] if first.is_empty() => rest.iter().fold(PathBuf::from("/"), |path, part| path.join(part)),
            all => all.iter().fold(self.base.clone(), |path, part| path.join(part)),
        }
    }
}

/// Checks a pinned SHA-256 as submitted and gives its stored form, lower-case hex.
///
/// # Errors
/// Anything but 64 hex digits.
pub fn check_sha256(field: &str, text: &str) -> Result<String, ContentError> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(ContentError::new(field, "a SHA-256 is 64 hexadecimal digits"))
    }
}

/// A path's parts; an absolute path's first is empty.
fn parts(path: &str) -> Result<Vec<String>, &'static str> {
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err("the URI's path holds a control character or a backslash");
    }
    let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    let (first, rest) = parts.split_first().expect("split gives at least one part");
    if first == "." || first == ".." || rest.iter().any(|p| p.is_empty() || p == "." || p == "..") || (first.is_empty() && rest.is_empty()) {
        return Err("the URI's path has an empty part, `.` or `..`");
    }
    Ok(parts)
}

fn unavailable(e: std::io::Error) -> ArtifactError {
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ArtifactError::Missing,
        other => ArtifactError::Unreadable(other),
    }
}

impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Artifact({} bytes, {})", self.bytes.len(), self.sha256)
    }
}
