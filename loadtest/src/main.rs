//! The load test: what one `curfew up` accepts, delivers and weighs, measured from outside against a local sink.
//!
//! `plan` makes the jobs, `drive` starts the binary and the sink and hands the jobs in, `measure` reads clocks, counts and memory, `report`
//! says it. Everything is on loopback, bounded in count and time, and ends with this process.

mod drive;
mod measure;
mod plan;
mod report;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Measures one curfew up against a local sink")]
struct Cli {
    #[command(subcommand)]
    scene: Scene,
}

#[derive(Subcommand)]
enum Scene {
    /// Jobs accepted per second by `curfew submit`, jobs delivered per second to the sink, memory with jobs waiting
    Speed(Speed),
}

/// What is measured, and with how much.
#[derive(Args, Clone)]
pub struct Speed {
    /// Jobs handed in ahead of their release, for the accept rate and the memory
    #[arg(long, default_value_t = 100_000)]
    waiting: u32,
    /// Jobs due at one instant, for the delivery rate
    #[arg(long, default_value_t = 20_000)]
    burst: u32,
    /// The tenants they belong to
    #[arg(long, default_value_t = 8)]
    tenants: u32,
    /// The binary [beside this one]
    #[arg(long)]
    curfew: Option<PathBuf>,
    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let Scene::Speed(speed) = Cli::parse().scene;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let found = runtime.block_on(drive::speed(&speed))?;
    report::print(&found, speed.json);
    Ok(())
}
