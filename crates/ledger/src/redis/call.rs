//! Calling scripts: by hash, many at once, each answer by itself.

use std::collections::HashMap;
use std::sync::Arc;

use curfew_domain::form;
use curfew_domain::{Record, Shard};
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use super::connect::Connected;
use super::scripts::Script;
use super::slot::slot;
use super::{Hands, RedisLedger};
use crate::LedgerError;

/// One script's call on one shard. The meta and the arguments that `lua/prelude.lua` names are put in front.
pub(super) struct Call {
    pub script: Script,
    pub shard: Shard,
    /// In which the errand began; `None`: it begins with this call.
    pub incarnation: Option<u32>,
    pub keys: Vec<String>,
    pub args: Vec<Vec<u8>>,
}

/// A script's answer.
pub(super) struct Reply {
    pub script: Script,
    pub word: String,
    pub rest: Vec<Value>,
    /// In which it was given: what is read in it belongs to it.
    pub incarnation: u32,
}

/// A connection, and the shard's incarnation as first seen on it.
type Seen = (Arc<Connected>, String);

impl RedisLedger {
    /// Calls one script.
    pub(super) async fn call(&self, call: Call) -> Result<Reply, LedgerError> {
        self.call_all(vec![call]).await.pop().expect("a call has one answer")
    }

    /// Calls scripts, in order on each lane; answers in order. No call is repeated, but for those that a server answered with NOSCRIPT: it ran none of them.
    pub(super) async fn call_all(&self, calls: Vec<Call>) -> Vec<Result<Reply, LedgerError>> {
        let seen = self.seen(&calls).await;
        let mut answers = futures::future::join_all(calls.iter().map(|call| self.ask(call, &seen[&call.shard]))).await;
        let unknown: Vec<usize> = (0..calls.len()).filter(|n| matches!(&answers[*n], Err(Failed::NoScript))).collect();
        if !unknown.is_empty() {
            self.reload(unknown.iter().filter_map(|n| seen[&calls[*n].shard].as_ref().ok())).await;
            let again = futures::future::join_all(unknown.iter().map(|n| self.ask(&calls[*n], &seen[&calls[*n].shard]))).await;
            for (n, answer) in unknown.into_iter().zip(again) {
                answers[n] = answer;
            }
        }
        let told = answers.into_iter().zip(&calls).map(|(answer, call)| {
            answer.map_err(|failed| match failed {
                Failed::NoScript => LedgerError::Unavailable { operation: call.script.name() },
                Failed::Told(error) => error,
            })
        });
        told.collect()
    }

    /// A connection for each shard asked for.
    async fn seen(&self, calls: &[Call]) -> HashMap<Shard, Result<Seen, LedgerError>> {
        let mut shards: Vec<Shard> = calls.iter().map(|call| call.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let seen = shards.into_iter().map(|shard| async move {
            let meta = self.keys.meta(shard);
            let seen = async {
                let conn = self.connection(shard).await?;
                let incarnation = conn.incarnation(shard, &meta).await?;
                Ok((conn, incarnation))
            };
            (shard, seen.await)
        });
        futures::future::join_all(seen).await.into_iter().collect()
    }

    /// The connection that serves a shard.
    pub(super) async fn connection(&self, shard: Shard) -> Result<Arc<Connected>, LedgerError> {
        self.nodes.connection(slot(&shard.to_string()), usize::from(shard.0) % self.options.connections.max(1)).await
    }

    async fn reload(&self, seen: impl Iterator<Item = &Seen>) {
        let mut conns: Vec<&Arc<Connected>> = seen.map(|(conn, _)| conn).collect();
        conns.sort_unstable_by_key(|conn| Arc::as_ptr(conn));
        conns.dedup_by_key(|conn| Arc::as_ptr(conn));
        for conn in conns {
            // Where it fails, the calls fail once more, and say so.
            if conn.load_scripts().await.is_err() {
                conn.drop_it();
            }
        }
    }

    async fn ask(&self, call: &Call, seen: &Result<Seen, LedgerError>) -> Result<Reply, Failed> {
        let (conn, first_seen) = seen.as_ref().map_err(|error| Failed::Told(error.clone()))?;
        let named = call.incarnation.map_or_else(|| first_seen.clone(), |incarnation| incarnation.to_string());
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(call.script.hash()).arg(call.keys.len() + 1).arg(self.keys.meta(call.shard));
        for key in &call.keys {
            cmd.arg(key);
        }
        let hands = match self.hands {
            Hands::Roles if self.clocks.is_halted(call.shard) => "halted",
            Hands::Roles => "",
            Hands::Recovery => "recovery",
        };
        cmd.arg(&named).arg(&conn.run_id).arg(&conn.replication_id).arg(hands).arg(self.clock_override());
        for arg in &call.args {
            cmd.arg(arg);
        }
        let (word, rest) = self.told(conn, conn.query(&cmd).await, call.script)?;
        match word.as_str() {
            "other_server" => {
                conn.refused();
                if conn.is_dropped() {
                    self.nodes.doubt();
                }
                Err(Failed::Told(LedgerError::OtherServer))
            }
            "other_incarnation" => {
                conn.forget_incarnation(call.shard, first_seen);
                Err(Failed::Told(LedgerError::OtherServer))
            }
            "recovering" if hands == "halted" => Err(Failed::Told(LedgerError::Halted)),
            "recovering" => Err(Failed::Told(LedgerError::Recovering)),
            _the_scripts_own => {
                let incarnation = named.parse().map_err(|_misfit| Failed::Told(unknown_answer(call.script)))?;
                Ok(Reply { script: call.script, word, rest, incarnation })
            }
        }
    }

    /// An answer's word and what follows it.
    pub(super) fn told(&self, conn: &Connected, answer: redis::RedisResult<Value>, script: Script) -> Result<(String, Vec<Value>), Failed> {
        let answer = answer.map_err(|error| self.failed(conn, &error, script))?;
        let Value::Array(parts) = answer else { return Err(Failed::Told(unknown_answer(script))) };
        let mut parts = parts.into_iter();
        let word = parts.next().and_then(bytes).and_then(|word| String::from_utf8(word).ok());
        Ok((word.ok_or_else(|| Failed::Told(unknown_answer(script)))?, parts.collect()))
    }

    fn failed(&self, conn: &Connected, error: &RedisError, script: Script) -> Failed {
        if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) {
            return Failed::NoScript;
        }
        let told = conn.failed(error, script.name());
        if conn.is_dropped() {
            self.nodes.doubt();
        }
        Failed::Told(told)
    }
}

/// Why a call has no answer.
pub(super) enum Failed {
    /// The server doesn't keep the script: it ran nothing.
    NoScript,
    Told(LedgerError),
}

/// A word or a form that no script of ours gives.
pub(super) fn unknown_answer(script: Script) -> LedgerError {
    LedgerError::Store(format!("{}: an answer that this process doesn't know", script.name()))
}

/// The bytes of a string; `None` for anything else, nil too.
pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _other => None,
    }
}

impl Reply {
    /// The next part.
    pub(super) fn part(&mut self) -> Result<Value, LedgerError> {
        if self.rest.is_empty() { Err(unknown_answer(self.script)) } else { Ok(self.rest.remove(0)) }
    }

    /// The next part, a record, which belongs to the incarnation in which it was read.
    pub(super) fn record(&mut self) -> Result<Record, LedgerError> {
        let stored = self.part().map(bytes)?.ok_or_else(|| unknown_answer(self.script))?;
        read(&stored, self.incarnation)
    }

    /// All parts that remain, each a list.
    pub(super) fn lists(self) -> Result<Vec<Vec<Value>>, LedgerError> {
        let script = self.script;
        let lists = self.rest.into_iter().map(|part| match part {
            Value::Array(list) => Ok(list),
            _other => Err(unknown_answer(script)),
        });
        lists.collect()
    }

    /// The error of a word that isn't one of this script's.
    pub(super) fn unknown(&self) -> LedgerError {
        unknown_answer(self.script)
    }
}

/// Reads a record. Its incarnation is the one in which it was read: the errand that begins with it names it in its swap (DESIGN 8).
pub(super) fn read(bytes: &[u8], incarnation: u32) -> Result<Record, LedgerError> {
    let mut record: Record = form::decode(bytes)?;
    record.incarnation = incarnation;
    Ok(record)
}

/// A number in decimal digits, as scripts return them.
pub(super) fn number<T: std::str::FromStr>(value: Value, script: Script) -> Result<T, LedgerError> {
    let text = match value {
        Value::Int(number) => number.to_string().into_bytes(),
        other => bytes(other).ok_or_else(|| unknown_answer(script))?,
    };
    std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| unknown_answer(script))
}
