//! The port's promises on RabbitMQ, with both kinds of queue.

#[expect(dead_code, reason = "each test binary uses its part of the bench")]
mod bench;

use std::sync::Arc;

use async_trait::async_trait;
use curfew_broker::Broker;
use curfew_broker::conformance::{self, Bench, Time};
use curfew_broker::topology::QueueType;

struct OnRabbit(bench::Fleet);

#[async_trait]
impl Bench for OnRabbit {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.0.broker) as Arc<dyn Broker>
    }

    fn time(&self) -> Time {
        Time::Real
    }

    async fn end_consumers(&self) {
        self.0.proxy.cut();
    }
}

macro_rules! conforms {
    ($($promise:ident),+ $(,)?) => {
        mod quorum {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                conformance::$promise(&OnRabbit(bench::fleet(concat!("q-", stringify!($promise)), QueueType::Quorum).await)).await;
            })+
        }
        mod classic {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                conformance::$promise(&OnRabbit(bench::fleet(concat!("c-", stringify!($promise)), QueueType::Classic).await)).await;
            })+
        }
    };
}

conforms!(
    b1_a_delayed_message_arrives_at_its_moment_and_never_earlier,
    b1_a_message_without_delay_arrives_at_once_and_in_order,
    b2_nothing_waits_behind_a_longer_delay,
    b3_what_a_consumer_leaves_is_delivered_again,
    b3_a_consumer_has_at_most_its_prefetch_in_hand,
    b4_a_rejected_delivery_reaches_the_dead_letter_queue,
    b5_a_stream_that_ends_uncancelled_is_a_failure,
    b5_a_cancelled_stream_ends_quietly_and_answers_what_it_holds,
    a_shard_is_its_own_queue,
);
