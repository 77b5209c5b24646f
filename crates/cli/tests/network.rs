//! TLS with a certificate authority of one's own, and proxies: the real binary against real servers on this machine.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{Client, Place};
use serde_json::json;
use server::Models;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tieline_model_server::{Answer, Script};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A server that speaks TLS and passes everything on to another one.
fn secure(runtime: &Runtime, behind: SocketAddr) -> SocketAddr {
    let chain: Vec<_> = CertificateDer::pem_file_iter(data("server.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut near) = acceptor.accept(stream).await else { return };
                let mut far = TcpStream::connect(behind).await.unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address
}

/// A proxy that wants a password and knows one server under every name. Keeps the heads of what it was asked.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

fn proxy(runtime: &Runtime, target: SocketAddr) -> Proxy {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                kept.lock().unwrap().push(head.clone());
                // dXNlcjpwQHNz is user:p@ss
                if !head.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpwqhnz") {
                    let _ = stream.write_all(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n").await;
                    return;
                }
                let mut far = TcpStream::connect(target).await.unwrap();
                if head.starts_with("CONNECT ") {
                    stream.write_all(b"HTTP/1.1 200 Yes\r\n\r\n").await.unwrap();
                } else {
                    // What a server wants to hear: the path alone.
                    let path = head.split(' ').nth(1).unwrap().splitn(4, '/').nth(3).unwrap().to_owned();
                    let rest = head.split_once("\r\n").unwrap().1;
                    let method = head.split(' ').next().unwrap();
                    far.write_all(format!("{method} /{path} HTTP/1.1\r\n{rest}").as_bytes()).await.unwrap();
                }
                let _ = copy_bidirectional(&mut stream, &mut far).await;
                let _ = stream.read_u8().await;
            });
        }
    });
    Proxy { address, heads }
}

fn list(url: &str, variables: &[(&str, &str)]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tieline"))
        .args(["models", "vllm", "--base-url", url])
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("XDG_STATE_HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn address(models: &Models) -> SocketAddr {
    models.url("anthropic").strip_prefix("http://").unwrap().parse().unwrap()
}

#[test]
fn a_server_with_its_own_authority_is_trusted_when_the_user_says_so() {
    let models = Models::start(Script::new(vec![]).models(["private"]));
    let runtime = runtime();
    let url = format!("https://localhost:{}/v1", secure(&runtime, address(&models)).port());
    let (out, err) = list(&url, &[]);
    assert!(out.is_empty() && err.contains("no secure connection") && err.contains("SSL_CERT_FILE"), "{err}");
    let authority = data("ca.pem");
    let (out, err) = list(&url, &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    assert!(out.contains("vllm/private"), "{err}");
    let (_, err) = list(&url, &[("SSL_CERT_FILE", "/nonexistent.pem")]);
    assert!(err.contains("/nonexistent.pem"), "{err}");
    let (_, err) = list(&url, &[("SSL_CERT_FILE", data("server.key").to_str().unwrap())]);
    assert!(err.contains("there are none in PEM form"), "{err}");
    let wrong_name = format!("https://127.0.0.2:{}/v1", url.split([':', '/']).nth(4).unwrap());
    let (_, err) = list(&wrong_name, &[("SSL_CERT_FILE", authority.to_str().unwrap())]);
    assert!(!err.is_empty(), "another name is another server");
}

#[test]
fn proxies_are_used_and_get_their_password_and_nothing_else_does() {
    let models = Models::start(Script::new(vec![]).models(["far"]));
    let runtime = runtime();
    let tunnel = proxy(&runtime, secure(&runtime, address(&models)));
    let plain = proxy(&runtime, address(&models));
    let authority = data("ca.pem");
    let trust = ("SSL_CERT_FILE", authority.to_str().unwrap());
    let good = |proxy: &Proxy| format!("http://user:p%40ss@{}", proxy.address);

    let (out, err) = list("https://models.test/v1", &[trust, ("HTTPS_PROXY", &good(&tunnel))]);
    assert!(out.contains("vllm/far"), "{err}");
    assert!(tunnel.heads.lock().unwrap()[0].starts_with("CONNECT models.test:443 HTTP/1.1\r\n"));
    let (out, err) = list("http://models.test:8000/v1", &[("http_proxy", &good(&plain))]);
    assert!(out.contains("vllm/far"), "{err}");
    assert!(plain.heads.lock().unwrap()[0].starts_with("GET http://models.test:8000/v1/models HTTP/1.1\r\n"));
    let (out, err) = list("https://models.test/v1", &[trust, ("ALL_PROXY", &good(&tunnel))]);
    assert!(out.contains("vllm/far"), "{err}");

    let seen = tunnel.heads.lock().unwrap().len();
    let bad = format!("http://user:not-it@{}", tunnel.address);
    let (_, err) = list("https://models.test/v1", &[trust, ("HTTPS_PROXY", &bad)]);
    assert!(err.contains("407") && err.contains("HTTPS_PROXY") && !err.contains("not-it"), "{err}");
    let except = ("NO_PROXY", "example.com,.test");
    let (_, err) = list("https://models.test/v1", &[trust, ("HTTPS_PROXY", &good(&tunnel)), except]);
    assert!(err.contains("models.test: can't connect"), "{err}");
    let direct = models.url("vllm");
    let (out, err) = list(&direct, &[("HTTP_PROXY", &good(&plain))]);
    assert!(out.contains("vllm/far"), "what is on this machine needs no proxy: {err}");
    assert_eq!((tunnel.heads.lock().unwrap().len(), plain.heads.lock().unwrap().len()), (seen + 1, 1));
    let (_, err) = list("https://models.test/v1", &[("HTTPS_PROXY", "http://127.0.0.1:1")]);
    assert!(err.contains("the proxy does not help"), "{err}");
}

#[test]
fn a_turn_runs_through_a_proxy_and_tls() {
    let models = Models::start(Script::new(vec![Answer::text("From afar.")]).key("sk-far"));
    let runtime = runtime();
    let tunnel = proxy(&runtime, secure(&runtime, address(&models)));
    let place = Place::new();
    let config = format!("[network]\nca_file = '{}'\n", data("ca.pem").display());
    std::fs::create_dir_all(place.folder.path().join("config/tieline")).unwrap();
    std::fs::write(place.folder.path().join("config/tieline/config.toml"), config).unwrap();
    let through = format!("http://user:p%40ss@{}", tunnel.address);
    let variables = [("HTTPS_PROXY", through.as_str()), ("ANTHROPIC_API_KEY", "sk-far")];
    let arguments = ["--model", "anthropic/claude-sonnet-5-5", "--base-url", "https://models.test"];
    let mut client = Client::start_with(&place, "1", &arguments, &variables, json!({}));
    let new = client.call("session/new", json!({"cwd": place.project(), "mcpServers": []}));
    client.session = new["sessionId"].as_str().unwrap().into();
    assert_eq!(client.prompt("Hello?"), "end_turn");
    assert_eq!(client.said(), "From afar.");
    let head = tunnel.heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("CONNECT models.test:443") && !head.contains("sk-far"), "{head}");
}
