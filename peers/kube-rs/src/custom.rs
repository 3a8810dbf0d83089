//! A derived type and a controller for it: applies a ConfigMap that it owns, reports in the status, cleans up.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, Event as Turn, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher;
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, KubeSchema, Resource as _,
    ResourceExt as _,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{NAMESPACE, code, eventually, expect};

/// Asks for a ConfigMap with a text.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default)]
#[kube(
    group = "kube-rs.example",
    version = "v1",
    kind = "Greeting",
    namespaced,
    status = "GreetingStatus"
)]
#[x_kube(validation = Rule::new("self.text != 'bye'").message("that is no greeting"))]
pub(crate) struct GreetingSpec {
    text: String,
    #[serde(default = "once")]
    times: usize,
}

fn once() -> usize {
    1
}

/// What was done.
#[derive(Serialize, Deserialize, Clone, Debug, Default, schemars::JsonSchema)]
pub(crate) struct GreetingStatus {
    observed_generation: i64,
}

fn greetings(client: &Client) -> Api<Greeting> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn greeting(name: &str, text: &str) -> Greeting {
    Greeting::new(name, GreetingSpec { text: text.to_owned(), times: 2 })
}

/// Applies the definition, as kube-rs' guide does, and waits for it.
pub(crate) async fn define(client: Client) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Greeting::crd_name();
    definitions
        .patch(name, &PatchParams::apply("peer").force(), &Patch::Apply(Greeting::crd()))
        .await?;
    await_condition(definitions, name, conditions::is_crd_established()).await?;
    eventually(|| async {
        let listed = greetings(&client).list(&Default::default()).await;
        Ok(listed.is_ok())
    })
    .await
}

pub(crate) async fn rules(client: Client) -> Result<()> {
    let refused = greetings(&client).create(&PostParams::default(), &greeting("bad", "bye")).await;
    expect("against a rule", code(&refused), 422)?;
    ensure!(format!("{refused:?}").contains("that is no greeting"), "{refused:?}");
    Ok(())
}

/// Starts the controller, which goes on until the program ends.
pub(crate) async fn controller(client: Client) -> Result<()> {
    let context = Arc::new(client.clone());
    let running = Controller::new(greetings(&client), watcher::Config::default().streaming_lists())
        .owns(maps(&client), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), context);
    tokio::spawn(running.for_each(|turn| async move {
        if let Err(error) = turn {
            eprintln!("the controller: {error:?}");
        }
    }));
    greetings(&client).create(&PostParams::default(), &greeting("world", "hello ")).await?;
    says(&client, "hello hello ").await?;
    maps(&client).delete("world", &DeleteParams::default()).await?;
    says(&client, "hello hello ").await
}

async fn says(client: &Client, text: &str) -> Result<()> {
    eventually(|| async {
        let found = maps(client).get_opt("world").await?;
        let found = found.and_then(|map| map.data).and_then(|data| data.get("text").cloned());
        Ok(found.as_deref() == Some(text))
    })
    .await
}

async fn reconcile(
    greeting: Arc<Greeting>,
    client: Arc<Client>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    finalizer(&greetings(&client), "kube-rs.example/farewell", greeting, |turn| async {
        match turn {
            Turn::Apply(greeting) => apply(&greeting, &client).await,
            Turn::Cleanup(greeting) => {
                let last: ConfigMap = ConfigMap {
                    metadata: kube::core::ObjectMeta {
                        name: Some(format!("{}-gone", greeting.name_any())),
                        ..Default::default()
                    },
                    ..Default::default()
                };
                maps(&client).create(&PostParams::default(), &last).await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
}

async fn apply(greeting: &Greeting, client: &Client) -> kube::Result<Action> {
    let params = PatchParams::apply("greeter").force();
    let name = greeting.name_any();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [greeting.controller_owner_ref(&())]},
        "data": {"text": greeting.spec.text.repeat(greeting.spec.times)},
    });
    maps(client).patch(&name, &params, &Patch::Apply(map)).await?;
    let status = json!({
        "apiVersion": "kube-rs.example/v1", "kind": "Greeting",
        "status": {"observed_generation": greeting.metadata.generation},
    });
    greetings(client).patch_status(&name, &params, &Patch::Apply(status)).await?;
    Ok(Action::await_change())
}

pub(crate) async fn status(client: Client) -> Result<()> {
    eventually(|| async {
        let greeting = greetings(&client).get("world").await?;
        let observed = greeting.status.map(|status| status.observed_generation);
        Ok(observed.is_some() && observed == greeting.metadata.generation)
    })
    .await
}

/// Twice the same event, so that the second is a patch of the first.
pub(crate) async fn events(client: Client) -> Result<()> {
    let about = greetings(&client).get("world").await?.object_ref(&());
    let recorder =
        Recorder::new(client.clone(), Reporter { controller: "peer".to_owned(), instance: None });
    let event = Event {
        type_: EventType::Normal,
        reason: "Tried".to_owned(),
        note: Some("this is a note".to_owned()),
        action: "Try".to_owned(),
        secondary: None,
    };
    recorder.publish(&event, &about).await?;
    recorder.publish(&event, &about).await?;
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(client, NAMESPACE);
    let list = events.list(&Default::default()).await?;
    let found = list.items.iter().find(|event| event.reason.as_deref() == Some("Tried"));
    let series = found.context("no event")?.series.as_ref();
    expect("count", series.map(|series| series.count), Some(2))
}

pub(crate) async fn finalizers(client: Client) -> Result<()> {
    greetings(&client).delete("world", &DeleteParams::default()).await?;
    eventually(|| async {
        let gone = greetings(&client).get_opt("world").await?.is_none();
        Ok(gone && maps(&client).get_opt("world-gone").await?.is_some())
    })
    .await
}

/// What the greeting owned goes after it.
pub(crate) async fn owners(client: Client) -> Result<()> {
    maps(&client).get("world-gone").await.context("the greeting has not gone")?;
    eventually(|| async { Ok(maps(&client).get_opt("world").await?.is_none()) }).await
}
