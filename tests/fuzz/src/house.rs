//! The door that submissions meet, and what the targets share about it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use curfew_api::{Door, Known, TenantDefaults};
use curfew_content::{Artifacts, Templates, Zones};
use curfew_domain::job::{Job, Letter};
use curfew_domain::sealed::Keyring;

/// 2026-11-30T12:00:00Z.
pub const NOON: i64 = 1_796_040_000_000;
/// The one template.
pub const TEMPLATE: &str = "renewal@1";

const MANIFEST: &str = "description = \"renewal\"\nlist_unsubscribe = \"https://example.com/off?r={{ token }}\"\n[params]\nplan = {}\n\
    greeting = { default = \"Hello\" }\ntoken = { default = \"none\" }\nitems = { default = [] }\n";
const TEXT: &str = "{{ greeting }}, your {{ plan }} plan renews.\n{% for i in items %}- {{ i.label }}\n{% endfor %}";
const HTML: &str = "<p>{{ greeting }}, your <b>{{ plan }}</b> plan renews.</p>{% for i in items %}<li>{{ i.label }}{% endfor %}";

/// A door before that template.
pub static DOOR: LazyLock<Door> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    door(folder.path())
});

fn keyring() -> Keyring {
    Keyring::new(BTreeMap::from([("k1".to_owned(), [7; 32])]), "k1", [9; 32]).expect("a keyring")
}

/// A door whose templates are written below `folder`; once they are loaded, the folder may go.
pub fn door(folder: &Path) -> Door {
    let version = folder.join("templates").join(TEMPLATE);
    std::fs::create_dir_all(&version).expect("made");
    for (name, source) in [("template.toml", MANIFEST), ("subject.txt", "Your {{ plan }} plan\n"), ("text.txt", TEXT), ("html.html", HTML)] {
        std::fs::write(version.join(name), source).expect("written");
    }
    let (templates, _warnings) = Templates::load(&folder.join("templates"), &BTreeMap::new()).expect("a template");
    let artifacts = Artifacts::new(folder, &["file:reports/".to_owned()]).expect("a root");
    let patient = TenantDefaults { policy: Some("patient".to_owned()), transport: None };
    let known = Known {
        policies: BTreeSet::from(["default".to_owned(), "patient".to_owned()]),
        transports: BTreeSet::from(["default".to_owned(), "bulk".to_owned()]),
        tenants: BTreeMap::from([("slow".to_owned(), patient)]),
    };
    Door::new(keyring(), Arc::new(templates), Arc::new(artifacts), Arc::new(Zones::load()), known, 16)
}

/// A job's letter, opened.
pub fn letter_of(job: &Job) -> Letter {
    let plain = keyring().open(job.id.as_bytes(), &job.letter).expect("sealed for this job");
    rmp_serde::from_slice(&plain.0).expect("a letter that the door sealed is read")
}
