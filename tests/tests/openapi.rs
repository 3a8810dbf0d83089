//! How OpenAPI documents are served: entity tags, addresses with a hash, compression, media types.

use anyhow::{Context, Result, ensure};
use lanyard_tests::Cluster;

#[test]
fn a_document_is_sent_once_and_then_known_by_its_tag() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let page = "/openapi/v3/api/v1";
    let first = api.get(page)?;
    let tag = first.header("etag").context("a tag")?.to_owned();
    let hash = tag.trim_matches('"').to_owned();
    ensure!(first.header("content-type") == Some("application/json"), "{first:?}");
    ensure!(first.header("cache-control") == Some("no-cache, private"), "{first:?}");
    ensure!(first.header("last-modified").is_some(), "{first:?}");

    let again = cluster.api()?.header("If-None-Match", &tag).get(page)?;
    ensure!(again.code == 304 && again.text.is_empty(), "{again:?}");

    let forever = api.get(&format!("{page}?hash={hash}"))?;
    ensure!(forever.header("cache-control") == Some("public, immutable"), "{forever:?}");
    ensure!(forever.header("expires").is_some(), "{forever:?}");
    ensure!(forever.text == first.text);

    let moved = api.get(&format!("{page}?hash=0123"))?;
    ensure!(moved.code == 301, "{moved:?}");
    ensure!(moved.header("location") == Some(&format!("{page}?hash={hash}")), "{moved:?}");
    Ok(())
}

#[test]
fn what_is_not_there_or_not_known_is_refused() -> Result<()> {
    let cluster = Cluster::start()?;
    for (path, code) in [
        ("/openapi", 404),
        ("/openapi/", 404),
        ("/openapi/v2/", 404),
        ("/openapi/v3/", 404),
        ("/openapi/v3/nope", 404),
        ("/openapi/v3/api/v1/", 404),
        ("/openapi/v3/apis/nope.example.com/v1", 404),
        ("/openapi/v3", 200),
    ] {
        let answer = cluster.api()?.get(path)?;
        ensure!(answer.code == code, "{path}: {answer:?}");
    }
    for path in ["/openapi/v2", "/openapi/v3/api/v1"] {
        let answer = cluster.api()?.header("Accept", "text/html").get(path)?;
        ensure!(answer.code == 406, "{path}: {answer:?}");
    }
    Ok(())
}

#[test]
fn everything_is_one_document_in_two_forms() -> Result<()> {
    let cluster = Cluster::start()?;
    let json = cluster.api()?.get("/openapi/v2")?;
    ensure!(json.body["swagger"] == "2.0", "{}", json.code);
    for asked in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf, application/json;q=0.5",
    ] {
        let protobuf = cluster.api()?.header("Accept", asked).get("/openapi/v2")?;
        let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        ensure!(protobuf.header("content-type") == Some(media), "{}", protobuf.code);
        ensure!(protobuf.header("etag") == json.header("etag"));
        // The first field of the message is the version of the format.
        ensure!(protobuf.text.starts_with("\n\u{3}2.0"));
    }
    Ok(())
}

#[test]
fn anybody_who_is_known_may_read_it() -> Result<()> {
    let cluster = Cluster::start()?;
    let known = cluster.user_api("visitor", &[])?.get("/openapi/v3")?;
    ensure!(known.code == 200, "{known:?}");
    let nobody = cluster.anonymous()?.get("/openapi/v3")?;
    ensure!(nobody.code == 403, "{nobody:?}");
    Ok(())
}
