//! The file that tells kubectl where the server is and who the user is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::field::quoted;

/// A kubeconfig with one cluster, one user and one context, all named `lanyard`.
///
/// All three PEM texts are embedded, so the file can be copied anywhere; it holds a private key, so it
/// must be readable by its owner only.
pub fn kubeconfig(server_url: &str, ca: &[u8], cert: &[u8], key: &[u8]) -> Zeroizing<String> {
    let key_data = Zeroizing::new(STANDARD.encode(key));
    // A JSON string is a YAML string too, whatever the URL holds.
    Zeroizing::new(format!(
        "apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: lanyard\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {ca}\n\
         users:\n\
         - name: lanyard\n\
         \x20 user:\n\
         \x20   client-certificate-data: {cert}\n\
         \x20   client-key-data: {key}\n\
         contexts:\n\
         - name: lanyard\n\
         \x20 context:\n\
         \x20   cluster: lanyard\n\
         \x20   user: lanyard\n\
         current-context: lanyard\n",
        server = quoted(server_url),
        ca = STANDARD.encode(ca),
        cert = STANDARD.encode(cert),
        key = *key_data,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_kubeconfig_reads_back_as_written() {
        let text = kubeconfig("https://[::1]:6443/a: b", b"ca", b"cert", b"key");
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lanyard", "cluster": {
                "server": "https://[::1]:6443/a: b", "certificate-authority-data": "Y2E=",
            }}],
            "users": [{"name": "lanyard", "user": {
                "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5",
            }}],
            "contexts": [{"name": "lanyard", "context": {"cluster": "lanyard", "user": "lanyard"}}],
            "current-context": "lanyard",
        });
        assert_eq!(value, expected);
    }
}
