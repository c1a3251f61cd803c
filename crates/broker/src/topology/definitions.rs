//! The topology in RabbitMQ's own form for import: `deploy/rabbitmq/definitions.json`.

use serde_json::{Map, Value as Json, json};

use super::{Argument, Binding, DELIVERY_LIMIT, Exchange, ExchangeKind, Queue, Topology, Value};

const VHOST: &str = "/";
/// Ready queues of the fleet and of rehearsals.
const READY_PATTERN: &str = r"^curfew\.(v1|rehearsal\.[^.]+)\.ready\.[0-9]+$";

impl Topology {
    /// Exchanges, queues, bindings and the shipped policy for the default virtual host, as pretty JSON with a newline at its end.
    ///
    /// The policy holds what may change while a queue lives; what defines a queue stands in its arguments.
    pub fn definitions(&self) -> String {
        let exchange = |e: &Exchange| {
            let arguments = arguments(&e.arguments);
            json!({
                "name": e.name, "vhost": VHOST, "type": word(e.kind), "durable": true, "auto_delete": false, "internal": false,
                "arguments": arguments,
            })
        };
        let queue = |q: &Queue| json!({"name": q.name, "vhost": VHOST, "durable": true, "auto_delete": false, "arguments": arguments(&q.arguments)});
        let binding = |b: &Binding| {
            json!({
                "source": b.exchange, "vhost": VHOST, "destination": b.queue, "destination_type": "queue", "routing_key": b.routing_key,
                "arguments": {},
            })
        };
        let exchanges: Vec<_> = self.exchanges.iter().map(exchange).collect();
        let queues: Vec<_> = self.queues.iter().map(queue).collect();
        let bindings: Vec<_> = self.bindings.iter().map(binding).collect();
        let policies = json!([{
            "vhost": VHOST, "name": "curfew-ready", "pattern": READY_PATTERN, "apply-to": "queues", "priority": 10,
            "definition": {"delivery-limit": DELIVERY_LIMIT},
        }]);
        let all = json!({"exchanges": exchanges, "queues": queues, "bindings": bindings, "policies": policies});
        serde_json::to_string_pretty(&all).expect("text and numbers are JSON") + "\n"
    }
}

/// RabbitMQ's word for it.
fn word(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Fanout => "fanout",
    }
}

fn arguments(all: &[Argument]) -> Json {
    let one = |argument: &Argument| {
        let value = match &argument.value {
            Value::Text(value) => json!(value),
            Value::Number(value) => json!(value),
        };
        (argument.name.to_owned(), value)
    };
    Json::Object(all.iter().map(one).collect::<Map<_, _>>())
}
