//! Which of the book's verbs a record lacks, as text.

use curfew_courier::recover::lacking;

use super::*;

/// Carried out again; a move to the times that the record has already is there, whoever gave them to it.
#[test]
fn a_verb_that_the_record_lacks() {
    table::check(
        &[
            ("verb", &["move", "cancel", "suppress"]),
            ("given for", &["this generation", "another"]),
            ("number", &["lower", "applied last", "higher"]),
            ("times", &["the record's", "others"]),
            ("in the book", &["applied", "open"]),
        ],
        GROUPS,
        |case| {
            let mut survivor = survivor("scheduled", 1, "before");
            survivor.record.verbs = vec![3, 5];
            let record = &survivor.record;
            let verb = match case.get("verb") {
                "move" if case.is("times", "others") => Verb::Move { release_at: record.release_at, deadline_at: record.deadline_at.plus(MINUTE) },
                "move" => Verb::Move { release_at: record.release_at, deadline_at: record.deadline_at },
                "cancel" => Verb::Cancel,
                _suppress => Verb::Suppress,
            };
            let number = match case.get("number") {
                "lower" => 4,
                "applied last" => 5,
                _higher => 6,
            };
            let verb = NumberedVerb { number, generation: if case.is("given for", "another") { 2 } else { 1 }, verb };
            let seen = [VerbSeen { verb, actor: "ada".to_owned(), applied: case.is("in the book", "applied") }];
            let facts = Facts { survivor: Some(&survivor), row: None, verbs: &seen, incarnation: NOW, lost_worker: false, until: until() };
            if lacking(&facts, &survivor).is_empty() { "there".to_owned() } else { "lacking".to_owned() }
        },
        "
        verb             | given for       | number     | times        | in the book | answer
        any              | another         | any        | any          | any         | there
        any              | this generation | not higher | any          | any         | there
        move             | this generation | higher     | the record's | any         | there
        move             | this generation | higher     | others       | any         | lacking
        cancel, suppress | this generation | higher     | any          | any         | lacking
        ",
    );
}

#[test]
fn verbs_that_are_lacking_keep_their_order() {
    let survivor = survivor("scheduled", 1, "before");
    let seen =
        [moved_to(time("ahead"), 1), VerbSeen { verb: NumberedVerb { number: 12, generation: 1, verb: Verb::Cancel }, ..moved_to(time("due"), 1) }];
    let facts = Facts { survivor: Some(&survivor), row: None, verbs: &seen, incarnation: NOW, lost_worker: false, until: until() };
    assert_eq!(lacking(&facts, &survivor).iter().map(|verb| verb.number).collect::<Vec<_>>(), [9, 12]);
}
