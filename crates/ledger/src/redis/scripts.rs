//! The scripts, each with its prelude, by the hash under which a server keeps them. That keeping is volatile: a restart forgets them.

use std::sync::LazyLock;

/// One script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Script {
    Create,
    Swap,
    Postpone,
    Restore,
    Fold,
    Get,
    Records,
    Histories,
    Overdue,
    Lines,
    Agenda,
    Counts,
    Recount,
    Walk,
    Expire,
    Suppressions,
    Beat,
    Heard,
    Permits,
    Lead,
    Meta,
}

impl Script {
    pub(super) const ALL: [Script; 21] = [
        Script::Create,
        Script::Swap,
        Script::Postpone,
        Script::Restore,
        Script::Fold,
        Script::Get,
        Script::Records,
        Script::Histories,
        Script::Overdue,
        Script::Lines,
        Script::Agenda,
        Script::Counts,
        Script::Recount,
        Script::Walk,
        Script::Expire,
        Script::Suppressions,
        Script::Beat,
        Script::Heard,
        Script::Permits,
        Script::Lead,
        Script::Meta,
    ];

    /// What an error says was asked.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Script::Create => "create",
            Script::Swap => "swap",
            Script::Postpone => "postpone",
            Script::Restore => "restore timer",
            Script::Fold => "fold a history",
            Script::Get => "get",
            Script::Records => "records",
            Script::Histories => "histories",
            Script::Overdue => "overdue",
            Script::Lines => "lines",
            Script::Agenda => "agenda",
            Script::Counts => "counts",
            Script::Recount => "recount",
            Script::Walk => "walk",
            Script::Expire => "expire",
            Script::Suppressions => "set suppressions",
            Script::Beat => "beat",
            Script::Heard => "hear a worker",
            Script::Permits => "permits",
            Script::Lead => "lead",
            Script::Meta => "meta",
        }
    }

    /// Its text with what stands in front.
    pub(super) const fn text(self) -> &'static str {
        macro_rules! after_prelude {
            ($file:literal) => {
                concat!(include_str!("lua/prelude.lua"), include_str!($file))
            };
        }
        macro_rules! writing {
            ($file:literal) => {
                concat!(include_str!("lua/prelude.lua"), include_str!("lua/place.lua"), include_str!($file))
            };
        }
        match self {
            Script::Create => writing!("lua/create.lua"),
            Script::Swap => writing!("lua/swap.lua"),
            Script::Postpone => writing!("lua/postpone.lua"),
            Script::Restore => writing!("lua/restore.lua"),
            Script::Fold => after_prelude!("lua/fold.lua"),
            Script::Get => after_prelude!("lua/get.lua"),
            Script::Records => after_prelude!("lua/records.lua"),
            Script::Histories => after_prelude!("lua/histories.lua"),
            Script::Overdue => after_prelude!("lua/overdue.lua"),
            Script::Lines => after_prelude!("lua/lines.lua"),
            Script::Agenda => after_prelude!("lua/agenda.lua"),
            Script::Counts => after_prelude!("lua/counts.lua"),
            Script::Recount => after_prelude!("lua/recount.lua"),
            Script::Walk => after_prelude!("lua/walk.lua"),
            Script::Expire => after_prelude!("lua/expire.lua"),
            Script::Suppressions => after_prelude!("lua/suppressions.lua"),
            Script::Beat => after_prelude!("lua/beat.lua"),
            Script::Heard => after_prelude!("lua/heard.lua"),
            Script::Permits => include_str!("lua/permits.lua"),
            Script::Lead => include_str!("lua/lead.lua"),
            Script::Meta => after_prelude!("lua/meta.lua"),
        }
    }

    /// SHA-1 of its text, as EVALSHA takes it.
    pub(super) fn hash(self) -> &'static str {
        static HASHES: LazyLock<Vec<redis::Script>> = LazyLock::new(|| Script::ALL.iter().map(|script| redis::Script::new(script.text())).collect());
        HASHES[self as usize].get_hash()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_stands_at_its_place() {
        for (place, script) in Script::ALL.iter().enumerate() {
            assert_eq!(*script as usize, place);
        }
    }

    #[test]
    fn the_first_command_of_create_is_set_nx() {
        let text = Script::Create.text();
        let commands = include_str!("lua/create.lua");
        let first = commands.split("redis.call(").nth(1).expect("it has commands");
        assert!(first.starts_with("'SET', KEYS[2], ARGV[8], 'NX')"), "{first}");
        // What stands in front defines functions and a table, and runs nothing.
        let front = text.strip_suffix(commands).expect("it ends with its own text");
        assert!(front.lines().all(|line| !line.starts_with("redis.")));
    }

    #[test]
    fn no_script_walks_the_key_space() {
        for script in Script::ALL {
            assert!(!script.text().contains("'KEYS'") && !script.text().contains("SCAN'"), "{script:?}");
        }
    }
}
