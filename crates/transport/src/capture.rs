//! Mail into files: `DIR/mail/<date>-<job id>.eml`, the embedded default, so that a first run needs no mail server.
//!
//! It counts as a provider. `prepare` writes and syncs a part file; the handoff is one hard link to the final name, which, other than a
//! rename, never replaces what stands there. The name is made of job and generation, so a handoff that comes again finds its own file and
//! is answered as accepted: one mail, whoever was killed between link and receipt.
//!
//! Not promised: a mailbox's size. Files stay until somebody removes them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use curfew_domain::outcome::{Outcome, OutcomeClass, Stage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use crate::{Acceptance, Bounds, HandOff, HandOffProgress, HandOffStage, LOOK_MAX, LastLook, Look, Parcel, Prepared, Transport, TransportError};

/// Files written at once; a disk gains nothing from more.
const FILES_MAX: usize = 32;
/// A disk that takes longer for one step is broken.
const STEP_MAX: Duration = Duration::from_secs(10);
/// Ends the names of files that no handoff has made a mail.
const PART: &str = ".part";

/// A folder that takes mail.
pub struct CaptureTransport {
    folder: Arc<Path>,
    permits: Arc<Semaphore>,
}

impl CaptureTransport {
    /// Opens `dir/mail`, creating it, for this user alone. Part files of an earlier process are removed; one that still runs meets that as
    /// a transient failure with nothing handed over.
    ///
    /// # Errors
    /// `File` where the folder can't be made or read.
    pub fn new(dir: &Path) -> Result<Self, TransportError> {
        let folder = dir.join("mail");
        let unusable = |operation, source| TransportError::File { field: "data_dir", operation, source };
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| unusable("creating its mail folder", error))?;
        for entry in fs::read_dir(&folder).map_err(|error| unusable("reading its mail folder", error))? {
            let path = entry.map_err(|error| unusable("reading its mail folder", error))?.path();
            if path.extension().is_some_and(|extension| extension == &PART[1..]) {
                // Removed by somebody else, perhaps: it is gone either way.
                let _gone = fs::remove_file(&path);
            }
        }
        Ok(Self { folder: folder.into(), permits: Arc::new(Semaphore::new(FILES_MAX)) })
    }

    /// The folder that holds the mails.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Outcome> {
        let waited = timeout_at(deadline.min(Instant::now() + STEP_MAX), Arc::clone(&self.permits).acquire_owned()).await;
        waited.ok().and_then(Result::ok).ok_or_else(|| {
            Outcome::new(
                OutcomeClass::Transient,
                Stage::Connect,
                crate::smtp::POOL_FULL,
                "the capture is closing, or too many files are being written",
            )
        })
    }
}

#[async_trait]
impl Transport for CaptureTransport {
    async fn prepare(&self, parcel: &Parcel, bounds: &Bounds) -> Result<Box<dyn Prepared>, Outcome> {
        let permit = self.permit(bounds.deadline).await?;
        let part = PartFile::unique(&self.folder, parcel);
        let (path, bytes) = (part.path.clone(), Arc::clone(&parcel.bytes));
        let written = timeout_at(bounds.deadline.min(Instant::now() + STEP_MAX), spawn_blocking(move || write_part(&path, &bytes))).await;
        match written {
            Ok(Ok(Ok(()))) => Ok(Box::new(Capture {
                part,
                target: self.folder.join(name(parcel)),
                bytes: Arc::clone(&parcel.bytes),
                progress: HandOffProgress::default(),
                _permit: permit,
            })),
            Ok(Ok(Err(error))) => Err(failed(&error)),
            Ok(Err(_panicked)) => Err(failed(&io::Error::other("the writer panicked"))),
            Err(_elapsed) => Err(failed(&io::ErrorKind::TimedOut.into())),
        }
    }

    async fn probe(&self) -> Result<(), Outcome> {
        let probe = PartFile { path: self.folder.join(format!(".probe-{:016x}{PART}", random())) };
        let path = probe.path.clone();
        match timeout(STEP_MAX, spawn_blocking(move || write_part(&path, b""))).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err(failed(&error)),
            Ok(Err(_panicked)) => Err(failed(&io::Error::other("the writer panicked"))),
            Err(_elapsed) => Err(failed(&io::ErrorKind::TimedOut.into())),
        }
    }

    fn max_connections(&self) -> usize {
        FILES_MAX
    }

    fn attempt_max(&self) -> Duration {
        3 * STEP_MAX + LOOK_MAX
    }

    async fn close(&self) {
        self.permits.close();
    }
}

/// A part file that waits for its handoff.
struct Capture {
    part: PartFile,
    target: PathBuf,
    bytes: Arc<[u8]>,
    progress: HandOffProgress,
    _permit: OwnedSemaphorePermit,
}

#[async_trait]
impl Prepared for Capture {
    async fn hand_off(self: Box<Self>, look: &mut dyn LastLook) -> HandOff {
        self.progress.reach(HandOffStage::Content);
        let why = match timeout(LOOK_MAX, look.look()).await {
            Ok(Look::Go) => None,
            Ok(Look::Stop) => Some("the last look said stop"),
            Err(_elapsed) => Some("the last look gave no answer in time"),
        };
        if let Some(why) = why {
            return HandOff::NotAccepted(Outcome::new(OutcomeClass::Transient, Stage::Content, "stopped-at-last-look", why));
        }
        self.progress.reach(HandOffStage::MarkerMayBeOut);
        let (part, target, bytes) = (self.part.path.clone(), self.target.clone(), Arc::clone(&self.bytes));
        match timeout(STEP_MAX, spawn_blocking(move || link(&part, &target, &bytes))).await {
            Ok(Ok(verdict)) => {
                self.progress.reach(HandOffStage::Answered);
                verdict
            }
            Ok(Err(_panicked)) => doubt("capture-lost", "the writer panicked"),
            Err(_elapsed) => doubt("capture-timeout", "the disk gave no answer in time"),
        }
    }

    async fn abandon(self: Box<Self>) {}

    fn stage(&self) -> HandOffProgress {
        self.progress.clone()
    }
}

/// Removed when dropped; the link that a handoff has made stays.
struct PartFile {
    path: PathBuf,
}

impl PartFile {
    /// Never the same twice: a frozen worker's file must not be written by another one.
    fn unique(folder: &Path, parcel: &Parcel) -> Self {
        Self { path: folder.join(format!(".{}-{:016x}{PART}", parcel.job_id, random())) }
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // One unlink; what can't be removed is removed at the next start.
        let _gone = fs::remove_file(&self.path);
    }
}

fn name(parcel: &Parcel) -> String {
    let replay = if parcel.generation > 1 { format!("-g{}", parcel.generation) } else { String::new() };
    format!("{}-{}{replay}.eml", parcel.dated.date(), parcel.job_id)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn write_part(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The handoff itself, on a thread of its own: it runs to its end even if nobody waits for it any more.
fn link(part: &Path, target: &Path, bytes: &[u8]) -> HandOff {
    let linked = fs::hard_link(part, target);
    let error = match linked {
        Ok(()) => {
            // The mail is there; a folder that can't be synced makes it neither more nor less accepted.
            let _unsynced = target.parent().map(|folder| File::open(folder).and_then(|folder| folder.sync_all()));
            return accepted("captured");
        }
        Err(error) => error,
    };
    match fs::read(target) {
        Ok(standing) if standing == bytes => accepted("captured before"),
        Ok(_other) => doubt("capture-differs", "another message stands under this job's name"),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let mut outcome = failed(&error);
            outcome.stage = Stage::Content;
            HandOff::NotAccepted(outcome)
        }
        Err(_unreadable) => doubt("capture-unreadable", "the captured file cannot be read"),
    }
}

fn accepted(text: &str) -> HandOff {
    HandOff::Accepted(Acceptance { code: 0, text: text.into(), queue_id: None })
}

fn doubt(rule: &'static str, why: &str) -> HandOff {
    HandOff::Unknown(Outcome::new(OutcomeClass::Ambiguous, Stage::Dot, rule, why))
}

/// A full disk may get room again; a folder that is missing or closed to us is a matter of the set-up.
fn failed(error: &io::Error) -> Outcome {
    let class = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotADirectory => {
            OutcomeClass::Configuration
        }
        _other => OutcomeClass::Transient,
    };
    Outcome::new(class, Stage::Connect, "capture-write", format!("the mail folder: {}", error.kind()))
}
