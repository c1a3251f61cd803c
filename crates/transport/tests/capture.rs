//! Mail into files: the port's promises, and a handoff that comes again.
#![expect(clippy::unwrap_used, reason = "a test panics where what it arranged fails")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use async_trait::async_trait;
use curfew_domain::{JobId, OutcomeClass};
use curfew_transport::conformance::{self, Fixed, Provider, ample, parcel};
use curfew_transport::{Acceptance, CaptureTransport, HandOff, Look, Parcel, Transport, TransportError};

struct Folder {
    transport: CaptureTransport,
}

#[async_trait]
impl Provider for Folder {
    fn transport(&self) -> &dyn Transport {
        &self.transport
    }
    async fn accepted(&self, job: JobId) -> u32 {
        mails(self.transport.folder()).iter().filter(|name| name.contains(&job.to_string())).count() as u32
    }
    fn can_hold(&self) -> bool {
        false
    }
    async fn hold_verdicts(&self) {}
    async fn verdict_awaited(&self) {}
    async fn release_verdicts(&self) {}
    fn can_fall_silent(&self) -> bool {
        false
    }
    async fn fall_silent(&self) {}
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mails(folder: &Path) -> Vec<String> {
    files(folder).into_iter().filter(|name| name.ends_with(".eml")).collect()
}

async fn deliver(transport: &CaptureTransport, parcel: &Parcel) -> HandOff {
    let prepared = transport.prepare(parcel, &ample()).await.unwrap_or_else(|outcome| panic!("{outcome:?}"));
    prepared.hand_off(&mut Fixed::new(Look::Go)).await
}

fn accepted(text: &str) -> HandOff {
    HandOff::Accepted(Acceptance { code: 0, text: text.into(), queue_id: None })
}

#[tokio::test]
async fn capture_keeps_the_ports_promises() {
    let dir = tempfile::tempdir().unwrap();
    let provider = Folder { transport: CaptureTransport::new(dir.path()).unwrap() };
    conformance::all(&provider).await;
    assert_eq!(files(provider.transport.folder()), mails(provider.transport.folder()), "no part file is left");
}

#[tokio::test]
async fn a_mail_is_the_message_itself_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    let parcel = parcel(1);
    assert_eq!(deliver(&transport, &parcel).await, accepted("captured"));
    let path = dir.path().join("mail").join(format!("{}-{}.eml", parcel.dated.date(), parcel.job_id));
    assert_eq!(std::fs::read(&path).unwrap(), &parcel.bytes[..]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A worker that was killed between the link and its receipt leaves the job in doubt; whoever hands over again finds the mail.
#[tokio::test]
async fn a_handoff_that_comes_again_makes_no_second_mail() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    let parcel = parcel(1);
    assert_eq!(deliver(&transport, &parcel).await, accepted("captured"));
    assert_eq!(deliver(&transport, &parcel).await, accepted("captured before"));
    assert_eq!(mails(transport.folder()).len(), 1);
    let mut other = parcel.clone();
    other.bytes = std::sync::Arc::from(&b"another\r\n"[..]);
    match deliver(&transport, &other).await {
        HandOff::Unknown(outcome) => assert_eq!(outcome.rule, "capture-differs"),
        verdict => panic!("{verdict:?}"),
    }
    assert_eq!(mails(transport.folder()).len(), 1);
}

#[tokio::test]
async fn a_replay_is_a_mail_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    let mut parcel = parcel(1);
    assert_eq!(deliver(&transport, &parcel).await, accepted("captured"));
    parcel.generation = 2;
    assert_eq!(deliver(&transport, &parcel).await, accepted("captured"));
    assert_eq!(mails(transport.folder()).len(), 2);
}

#[tokio::test]
async fn part_files_of_a_killed_process_are_removed_and_mails_stay() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    assert_eq!(deliver(&transport, &parcel(1)).await, accepted("captured"));
    std::fs::write(transport.folder().join(".x.part"), "half").unwrap();
    let again = CaptureTransport::new(dir.path()).unwrap();
    assert_eq!(files(again.folder()), mails(again.folder()));
    assert_eq!(mails(again.folder()).len(), 1);
}

#[tokio::test]
async fn a_folder_that_is_gone_is_a_matter_of_the_set_up() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    transport.probe().await.unwrap();
    std::fs::remove_dir_all(transport.folder()).unwrap();
    assert_eq!(transport.probe().await.unwrap_err().class, OutcomeClass::Configuration);
    let refused = transport.prepare(&parcel(1), &ample()).await.err().unwrap();
    assert_eq!(refused.class, OutcomeClass::Configuration);
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(CaptureTransport::new(&file), Err(TransportError::File { .. })));
}

#[tokio::test]
async fn a_part_file_that_was_removed_is_proven_not_handed_off() {
    let dir = tempfile::tempdir().unwrap();
    let transport = CaptureTransport::new(dir.path()).unwrap();
    let prepared = transport.prepare(&parcel(1), &ample()).await.unwrap_or_else(|outcome| panic!("{outcome:?}"));
    let _other_process = CaptureTransport::new(dir.path()).unwrap();
    assert!(matches!(prepared.hand_off(&mut Fixed::new(Look::Go)).await, HandOff::NotAccepted(_)));
}
