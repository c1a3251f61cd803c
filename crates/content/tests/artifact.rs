//! Artifacts: what may be named at the door, and what reading finds.

use std::path::Path;

use curfew_content::artifact::check_sha256;
use curfew_content::{ArtifactError, Artifacts, Remedy};

const SHA_OF_HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

fn base() -> (tempfile::TempDir, Artifacts) {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(dir.path().join("reports/eu")).expect("made");
    std::fs::write(dir.path().join("reports/R-1.pdf"), "hello").expect("written");
    std::fs::write(dir.path().join("reports/eu/R 2%2e.pdf"), "hello").expect("written");
    std::fs::write(dir.path().join("secret.txt"), "secret").expect("written");
    let artifacts = Artifacts::new(dir.path(), &["file:reports/".into()]).expect("roots");
    (dir, artifacts)
}

#[test]
fn the_door_lets_nothing_through_that_is_not_under_a_root() {
    let (dir, artifacts) = base();
    for good in ["file:reports/R-1.pdf", "file:reports/eu/R 2%2e.pdf", "file:reports/not-yet.pdf", "file:reports/..R.pdf"] {
        assert!(artifacts.check_uri(good).is_ok(), "{good}");
    }
    let absolute = format!("file:{}", dir.path().join("reports/R-1.pdf").display());
    for bad in [
        "",
        "R-1.pdf",
        "reports/R-1.pdf",
        "http://example.com/x",
        "FILE:reports/R-1.pdf",
        "file:",
        "file:/",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "file:secret.txt",
        "file:reports",
        "file:reports/",
        "file:reports2/x",
        "file:reports/../secret.txt",
        "file:reports/eu/../../secret.txt",
        "file:./reports/R-1.pdf",
        "file:../reports/R-1.pdf",
        "file:reports//R-1.pdf",
        "file:reports/./R-1.pdf",
        "file:reports/..",
        "file:reports\\R-1.pdf",
        "file:reports/R\u{0}.pdf",
        "file:reports/R\n.pdf",
        absolute.as_str(),
        &format!("file:reports/{}", "x".repeat(1100)),
    ] {
        assert!(matches!(artifacts.check_uri(bad), Err(ArtifactError::Forbidden(_))), "{bad}");
    }
    for bad in ["reports/", "file:", "file:/", "file:../", "file:a/../b", "s3://bucket"] {
        assert!(Artifacts::new(Path::new("/tmp"), &[bad.into()]).is_err(), "{bad}");
    }
    assert!(Artifacts::new(dir.path(), &[]).expect("no roots").check_uri("file:reports/R-1.pdf").is_err());
    let rooted = Artifacts::new(Path::new("/nowhere"), &[format!("file:{}/reports/", dir.path().display())]).expect("an absolute root");
    assert!(rooted.check_uri(&absolute).is_ok());
}

#[tokio::test]
async fn reading_gives_the_bytes_with_their_hash_or_says_why_not() {
    let (dir, artifacts) = base();
    let artifact = artifacts.read("file:reports/R-1.pdf", None).await.expect("read");
    assert_eq!((artifact.bytes.as_slice(), artifact.sha256.as_str()), (b"hello".as_slice(), SHA_OF_HELLO));
    assert!(artifacts.read("file:reports/R-1.pdf", Some(&SHA_OF_HELLO.to_uppercase())).await.is_ok());
    assert!(artifacts.read("file:reports/eu/R 2%2e.pdf", Some(SHA_OF_HELLO)).await.is_ok());
    let mismatch = artifacts.read("file:reports/R-1.pdf", Some(&"0".repeat(64))).await.expect_err("another hash");
    assert!(matches!(&mismatch, ArtifactError::Mismatch { found } if found == SHA_OF_HELLO) && mismatch.remedy() == Remedy::Stop);
    for absent in ["file:reports/R-9.pdf", "file:reports/R-1.pdf/x", "file:reports/no/x"] {
        let missing = artifacts.read(absent, None).await.expect_err("absent");
        assert!(matches!(missing, ArtifactError::Missing) && missing.remedy() == Remedy::Retry, "{absent}");
    }
    let small = artifacts.clone().with_bytes_max(4);
    assert!(matches!(small.read("file:reports/R-1.pdf", None).await, Err(ArtifactError::TooLarge { limit: 4 })));
    assert!(artifacts.clone().with_bytes_max(5).read("file:reports/R-1.pdf", None).await.is_ok());
    assert!(matches!(artifacts.read("file:reports/eu", None).await, Err(ArtifactError::Forbidden(_))), "a folder");
    drop(dir);
    assert!(matches!(artifacts.read("file:reports/R-1.pdf", None).await, Err(ArtifactError::Missing)), "the root is gone");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_may_stay_inside_its_root_and_never_leave_it() {
    use std::os::unix::fs::symlink;
    let (dir, artifacts) = base();
    let reports = dir.path().join("reports");
    symlink("../R-1.pdf", reports.join("eu/inside.pdf")).expect("linked");
    symlink("../secret.txt", reports.join("outside.pdf")).expect("linked");
    symlink("/etc", reports.join("etc")).expect("linked");
    symlink("gone.pdf", reports.join("broken.pdf")).expect("linked");
    assert!(artifacts.read("file:reports/eu/inside.pdf", None).await.is_ok());
    for escape in ["file:reports/outside.pdf", "file:reports/etc/passwd"] {
        assert!(matches!(artifacts.read(escape, None).await, Err(ArtifactError::Forbidden(_))), "{escape}");
    }
    assert!(matches!(artifacts.read("file:reports/broken.pdf", None).await, Err(ArtifactError::Missing)));
}

#[test]
fn a_pinned_hash_is_64_hexadecimal_digits() {
    assert_eq!(check_sha256("attachments.0.sha256", &SHA_OF_HELLO.to_uppercase()).as_deref(), Ok(SHA_OF_HELLO));
    for bad in ["", "abc", &"g".repeat(64), &"0".repeat(65)] {
        assert_eq!(check_sha256("attachments.0.sha256", bad).expect_err("refused").field, "attachments.0.sha256");
    }
}
