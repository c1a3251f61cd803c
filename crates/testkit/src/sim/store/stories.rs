//! Stories and evidence reach the book (K3, K4, R1, R2, R6).

use std::collections::BTreeMap;

use curfew_book::judge::item::Circumstances;
use curfew_book::judge::recovery::BegunIn;
use curfew_book::judge::{self, ItemFate, evidence_source_word};
use curfew_book::{BookError, Evidence, EvidenceTaken, Story, Told};
use curfew_domain::{JobId, Key, Moment, State};

use super::server::Tx;
use super::tables::Locked;

impl Tx<'_> {
    /// Tells the book stories of ended records; dead letters become review items.
    pub(super) fn tell(&mut self, stories: &[Story], owners: &BTreeMap<String, String>, at: Moment) -> Result<Vec<Told>, BookError> {
        self.guard(&BegunIn::of_stories(stories))?;
        let mut rows: BTreeMap<&Key, (Locked, bool)> = BTreeMap::new();
        for story in stories {
            let key = &story.record.key;
            if let Some(locked) = self.tables.locked_key(key) {
                rows.entry(key).or_insert((locked, false));
            }
        }
        let answers = stories
            .iter()
            .map(|story| match rows.get_mut(&story.record.key) {
                Some((locked, dirty)) => {
                    self.tell_one(locked, dirty, story, &Circumstances { owners, record: Some(&story.record), actor: "curfew", at })
                }
                None => Told::Unknown,
            })
            .collect();
        for (locked, _) in rows.values().filter(|(_, dirty)| *dirty) {
            self.tables.save(&locked.row);
        }
        Ok(answers)
    }

    fn tell_one(&mut self, locked: &mut Locked, dirty: &mut bool, story: &Story, with: &Circumstances<'_>) -> Told {
        self.apply_verbs(locked.row.job.id, &story.record.verbs);
        let telling = judge::tell(&mut locked.row, story);
        *dirty |= telling.changed;
        let first = telling.item == ItemFate::Record;
        if self.bugs.upserted_review_items && story.record.state == State::DeadLetter && self.upsert_item(locked, &story.record, first, with) {
            return Told::Written;
        }
        if telling.item != ItemFate::Keep {
            self.carry_out(locked, &telling.item, with);
        }
        self.world.count(&format!("book: told {:?}", telling.told));
        telling.told
    }

    /// Who swapped closes a verb's row as applied, even over a refusal.
    fn apply_verbs(&mut self, job: JobId, numbers: &[u64]) {
        for number in numbers {
            let other = self.tables.verbs.get(number).is_some_and(|verb| verb.job == job && verb.applied != Some(true));
            if other && let Some(verb) = self.tables.verbs.get_mut(number) {
                verb.applied = Some(true);
            }
        }
    }

    /// Takes evidence about a token where no record stands, or a provider's event.
    pub(super) fn take_evidence(&mut self, evidence: &Evidence) -> EvidenceTaken {
        let Some(mut locked) = self.tables.locked_key(&evidence.key) else {
            return EvidenceTaken::Unknown;
        };
        let in_doubt = locked.item.and_then(|n| self.tables.items.get(&n)).is_some_and(|row| row.item.in_doubt);
        let weighed = judge::weigh(&mut locked.row, in_doubt, evidence);
        if weighed.changed {
            let owners = BTreeMap::new();
            let with = Circumstances { owners: &owners, record: None, actor: evidence_source_word(&evidence.source), at: evidence.at };
            self.carry_out(&mut locked, &weighed.item, &with);
            self.tables.save(&locked.row);
        }
        self.world.count(&format!("book: evidence {:?}", weighed.taken));
        weighed.taken
    }
}
