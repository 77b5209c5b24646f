//! The ways in: HTTP/2 with and without TLS, HTTP/1.1 with TLS, a Unix socket; HTTP and WebSocket on each.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Open, tokens};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline::{StopReason, agent, client};
use tieline_http::server::{Gate, Listener, Rules, Secure};
use tieline_http::{Remote, Server};
use tieline_web::{Bytes, Http, Options, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

const SOON: Duration = Duration::from_secs(20);
const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/data").join(name)
}

fn echoes(gate: impl Gate) -> Server {
    let (arrivals, mut arrived) = mpsc::channel::<tieline_http::Arrival>(8);
    tokio::spawn(async move {
        while let Some(arrival) = arrived.recv().await {
            let echo = agent::from_fn("echo", |turn, prompt| async move {
                for block in prompt {
                    turn.say(block).await?;
                }
                Ok(StopReason::EndTurn)
            });
            tokio::spawn(agent::serve(echo, arrival.transport));
        }
    });
    Server::new(Rules::default(), gate, arrivals)
}

fn listen(server: &Server, listener: Listener) {
    let server = server.clone();
    tokio::spawn(async move { server.listen(listener).await });
}

/// A hello and its stream over one HTTP/2 connection; gives the first bytes of the stream.
async fn two(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, scheme: &str) -> String {
    let (mut send, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = |method: &str| Request::builder().method(method).uri(format!("{scheme}://localhost/acp"));
    let hello = request("POST").header("content-type", "application/json").body(Full::new(Bytes::from(HELLO)));
    let answer = timeout(SOON, send.send_request(hello.unwrap())).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    let id = answer.headers()["acp-connection-id"].clone();
    let get = request("GET").header("accept", "text/event-stream").header("acp-connection-id", id);
    let answer = send.send_request(get.body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    let piece = timeout(SOON, answer.into_body().frame()).await.unwrap().unwrap().unwrap();
    String::from_utf8(piece.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn http_2_without_tls() {
    let server = echoes(Open);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    listen(&server, Listener::Tcp(listener));
    assert!(two(TcpStream::connect(address).await.unwrap(), "http").await.starts_with("id: "));
}

#[tokio::test]
async fn tls_with_both_versions_of_http() {
    let server = echoes(Open);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secure = Secure::from_files(&data("server.pem"), &data("server.key")).unwrap();
    listen(&server, Listener::Tls(listener, secure));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(data("ca.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert!(two(stream, "https").await.starts_with("id: "));

    // Our own client, both ways; without the certificate it does not trust.
    for scheme in ["https", "wss"] {
        let at = format!("{scheme}://localhost:{}", address.port());
        let http = Http::new(Options { ca_file: Some(data("ca.pem")), ..Options::default() });
        let remote = Remote::new(&at).unwrap().http(http);
        let agent = client::connect(remote.connect().await.unwrap()).await.unwrap();
        let session = agent.open("/").await.unwrap();
        assert_eq!(session.prompt("hi").await.unwrap().text().await.unwrap().0, "hi", "{scheme}");
        let wary = Remote::new(&at).unwrap().http(Http::new(Options::default()));
        let why = match wary.connect().await {
            Ok(transport) => {
                client::connect(transport).await.map(|_| ()).unwrap_err();
                wary.trouble().unwrap()
            }
            Err(error) => error.to_string(),
        };
        assert!(why.contains("no secure connection"), "rule 71: {scheme}: {why}");
    }
    assert!(Secure::from_files(&data("ca.pem"), &data("no.key")).unwrap_err().to_string().contains("no.key"));
    assert!(Secure::from_files(&data("server.key"), &data("server.key")).is_err());
}

#[tokio::test]
async fn a_unix_socket_needs_no_token() {
    let server = echoes(tokens());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acp.sock");
    listen(&server, Listener::Unix(UnixListener::bind(&path).unwrap()));
    assert!(two(UnixStream::connect(&path).await.unwrap(), "http").await.starts_with("id: "));
}
