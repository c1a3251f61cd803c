//! The API's description, from the code: OpenAPI 3.1. `tests/openapi.rs` holds its paths.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::routes;

#[derive(OpenApi)]
#[openapi(
    modifiers(&Bearer),
    security(("bearer" = [])),
    info(title = "Curfew", version = env!("CARGO_PKG_VERSION"), description = "Scheduled business email that stops at a deadline."),
    paths(
        routes::submit_job, routes::import_jobs, routes::list_jobs, routes::show_job, routes::cancel_job, routes::suppress_job, routes::move_job,
        routes::list_schedules, routes::show_schedule, routes::put_schedule, routes::delete_schedule, routes::preview_schedule,
        routes::pause_schedule, routes::resume_schedule, routes::show_runs,
        routes::list_items, routes::show_item, routes::preview_item, routes::replay_item, routes::correct_item, routes::suppress_item,
        routes::escalate_item, routes::resolve_item, routes::assign_item, routes::note_item, routes::approve_item,
        routes::list_suppressions, routes::add_suppression, routes::remove_suppression,
        routes::list_audit, routes::verify_audit, routes::show_day, routes::show_capacity,
        routes::show_fleet, routes::pause_fleet, routes::resume_fleet, routes::drain_fleet,
        routes::take_events, routes::health, routes::ready, routes::show_metrics, routes::show_openapi,
    )
)]
struct Document;

/// An operator's token; without operators none is asked for.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        document.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// The description of every route.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
