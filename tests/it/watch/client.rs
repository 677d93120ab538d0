//! A server in a separate process, and a client that sends exactly the given bytes.

use crate::binary::formwork;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Timeout for everything, on a machine that does other work too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// `formwork watch` at a free port; it ends when the value is dropped.
pub struct Watch {
    pub process: Child,
    pub port: u16,
    /// The printed address.
    pub url: String,
}

impl Watch {
    pub fn start(folder: &Path, more: &[&str]) -> Self {
        let shown = folder.display().to_string();
        let mut arguments = vec!["watch", &shown, "--port", "0"];
        arguments.extend(more);
        let mut process = formwork(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        let rest = url.trim().strip_prefix("http://").unwrap();
        let port = rest
            .split_once('/')
            .unwrap()
            .0
            .rsplit_once(':')
            .unwrap()
            .1
            .parse();
        Self {
            process,
            port: port.unwrap(),
            url: url.trim().to_string(),
        }
    }

    pub fn get(&self, path: &str) -> Answer {
        get(self.port, path, &[])
    }

    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Returns the list of runs, once it has `number` runs and was read to its end.
    pub fn runs(&self, number: usize) -> Value {
        self.until(|all| {
            all["runs"].as_array().unwrap().len() == number && all["read"] == all["found"]
        })
    }

    /// Returns the list of runs, once `holds` is true for it.
    pub fn until(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let all = self.json("/api/runs");
            if holds(&all) {
                return all;
            }
            assert!(begun.elapsed() < PATIENCE, "{all}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A response of the server.
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Requests a path; the host is the loopback address unless the headers name one.
pub fn get(port: u16, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask(port, "GET", path, headers)
}

pub fn ask(port: u16, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut stream = begin(port, method, path, headers, "close");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    assert!(!chunked, "answers have a length");
    Answer {
        status,
        head: head.to_string(),
        body: body.to_string(),
    }
}

fn begin(
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    connection: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: {connection}\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request.push_str(&format!("Host: 127.0.0.1:{port}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream
        .write_all(format!("{request}\r\n").as_bytes())
        .unwrap();
    stream
}

/// A stream of server-sent events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    pub fn open(port: u16, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut lines = BufReader::new(begin(port, "GET", path, headers, "keep-alive"));
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        Self(lines)
    }

    /// Returns the next event: its id and its data.
    pub fn next(&mut self) -> (String, Value) {
        let (mut id, mut data) = (String::new(), None);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream ended");
            let line = line.trim_end();
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.to_string();
            } else if let Some(given) = line.strip_prefix("data: ") {
                data = Some(serde_json::from_str(given).unwrap());
            } else if line.is_empty()
                && let Some(data) = data.take()
            {
                return (id, data);
            }
        }
    }

    /// Returns the first event for which `holds` is true.
    pub fn until(&mut self, holds: impl Fn(&Value) -> bool) -> (String, Value) {
        let begun = Instant::now();
        loop {
            let (id, data) = self.next();
            if holds(&data) {
                return (id, data);
            }
            assert!(begun.elapsed() < PATIENCE, "{data}");
        }
    }
}
