//! The document names every path and verb of the contract that exists, and no other. Golden.

use std::fmt::Write;

#[test]
fn the_document_names_these_paths() {
    let document = serde_json::to_value(curfew_api::document()).expect("it serialises");
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = String::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let verbs: Vec<String> = item.as_object().expect("verbs").keys().map(|v| v.to_uppercase()).collect();
        writeln!(found, "{path} {}", verbs.join(" ")).expect("written");
    }
    assert_eq!(found, include_str!("openapi.paths.txt"), "if this is meant, write it into tests/openapi.paths.txt:\n{found}");
}

#[test]
fn every_schema_that_is_named_exists() {
    let document = serde_json::to_value(curfew_api::document()).expect("it serialises");
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for part in text.split("#/components/schemas/").skip(1) {
        let name: String = part.chars().take_while(|c| *c != '"').collect();
        assert!(schemas.contains_key(&name), "{name}");
    }
    assert!(schemas.contains_key("JobBody") && schemas.contains_key("Problem") && schemas.contains_key("Summary"));
}

#[tokio::test]
async fn every_path_of_the_document_is_served() {
    let house = crate::house::house().await;
    let document = house.get("/openapi.json").await.json();
    for (path, item) in document["paths"].as_object().expect("paths") {
        let real: String = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/");
        for verb in item.as_object().expect("verbs").keys() {
            let answered = house.ask(&verb.to_uppercase(), &real, &[], b"").await;
            assert!(answered.status != 405 && !answered.body.contains("there is no such path"), "{verb} {path}: {}", answered.body);
        }
    }
}
