//! Which requests are answered: methods, hosts, the token; no address leads out of the folder; malicious run folders.

use super::client::{Watch, ask, get};
use super::write_run;
use serde_json::json;
use std::fs;

#[test]
fn runs_are_read_alone() {
    let folder = tempfile::tempdir().unwrap();
    let run = write_run(folder.path(), "run", 3, 10);
    let before: Vec<_> = fs::read_dir(&run)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    let watch = Watch::start(folder.path(), &[]);
    watch.runs(1);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/", "/api/runs", "/api/run/run", "/none"] {
            let answer = ask(watch.port, method, path, &[("Content-Length", "0")]);
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), Some("GET, HEAD"));
        }
    }
    assert_eq!(ask(watch.port, "HEAD", "/api/runs", &[]).status, 200);
    for path in [
        "/api/run/run",
        "/api/curves/run",
        "/api/settings/run",
        "/api/diagnostics/run",
    ] {
        watch.json(path);
    }
    let after: Vec<_> = fs::read_dir(&run)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_page_from_elsewhere_whose_name_leads_here_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let watch = Watch::start(folder.path(), &[]);
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
    ] {
        for path in ["/", "/api/runs", "/page.js"] {
            assert_eq!(
                get(watch.port, path, &[("Host", host)]).status,
                403,
                "{host}"
            );
        }
    }
    // A tunnel may have another port.
    for host in ["localhost:9000", "127.0.0.1", "[::1]:1"] {
        assert_eq!(
            get(watch.port, "/api/runs", &[("Host", host)]).status,
            200,
            "{host}"
        );
    }
}

#[test]
fn beyond_loopback_a_token_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for more in [&["--host", "0.0.0.0"][..], &["--token"][..]] {
        let watch = Watch::start(folder.path(), more);
        let token = watch.url.split_once("/?token=").unwrap().1;
        assert_eq!(token.len(), 64);
        let asked = |path: &str, headers: &[(&str, &str)]| get(watch.port, path, headers);
        for path in ["/", "/api/runs", "/api/events", "/page.js", "/none"] {
            assert_eq!(asked(path, &[]).status, 401, "{path}");
        }
        let wrong = "0".repeat(64);
        for bad in ["", "x", wrong.as_str(), &token[1..]] {
            assert_eq!(asked(&format!("/?token={bad}"), &[]).status, 401);
            assert_eq!(
                asked("/api/runs", &[("Authorization", &format!("Bearer {bad}"))]).status,
                401
            );
        }
        assert_eq!(
            asked(
                "/api/runs",
                &[("Authorization", &format!("Bearer {token}"))]
            )
            .status,
            200
        );
        let welcome = asked(&format!("/?token={token}"), &[]);
        assert_eq!(
            (welcome.status, welcome.header("location")),
            (303, Some("/"))
        );
        let cookie = welcome.header("set-cookie").unwrap();
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
        let pair = cookie.split(';').next().unwrap();
        let cookies = format!("other=1; {pair}");
        assert_eq!(asked("/api/runs", &[("Cookie", &cookies)]).status, 200);
        assert!(!asked("/", &[("Cookie", &cookies)]).body.contains(token));
    }
}

#[test]
fn no_address_leads_out_of_the_folder() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("runs");
    write_run(parent.path(), "outside", 3, 10);
    write_run(&folder, "inside", 3, 10);
    let watch = Watch::start(&folder, &[]);
    watch.runs(1);
    let absolute = format!("/api/run/{}", parent.path().join("outside").display());
    for path in [
        "/api/run/../outside",
        "/api/run/..%2foutside",
        "/api/run/%2e%2e/outside",
        "/api/run/inside/../../outside",
        "/api/run/inside%00",
        "/api/run/inside/metrics.jsonl",
        "/api/curves/..%2Foutside",
        "/api/settings/%2e%2e%2foutside",
        "/../../../etc/passwd",
        "//etc/passwd",
        "/api/run/%ff",
        absolute.as_str(),
    ] {
        let answer = get(watch.port, path, &[]);
        assert!(
            matches!(answer.status, 400 | 404),
            "{path}: {}",
            answer.status
        );
        assert!(!answer.body.contains("steps"), "{path}: {}", answer.body);
    }
    let answer = watch.get("/api/run/%ff%fe");
    let told: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(told["error"].as_str().unwrap().contains("UTF-8"), "{told}");
}

#[cfg(unix)]
#[test]
fn links_and_pipes_of_a_run_folder_show_nothing_from_elsewhere() {
    use std::os::unix::fs::symlink;
    let parent = tempfile::tempdir().unwrap();
    let secret = parent.path().join("secret");
    fs::write(&secret, "secret = \"of mine\"\n").unwrap();
    let folder = parent.path().join("runs");
    let run = write_run(&folder, "run", 3, 10);
    for name in [
        "experiment.toml",
        "samples.jsonl",
        "machine.json",
        "diagnostics.jsonl",
        "scores.json",
    ] {
        symlink(&secret, run.join(name)).unwrap();
    }
    symlink(&secret, folder.join("run.log")).unwrap();
    symlink(parent.path(), run.join("steps")).unwrap();
    let linked = folder.join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(&secret, linked.join("resolved.toml")).unwrap();
    symlink(parent.path(), folder.join("loop")).unwrap();
    let piped = write_run(&folder, "piped", 1, 10);
    fs::remove_file(piped.join("metrics.jsonl")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(piped.join("metrics.jsonl"))
        .status();
    assert!(made.unwrap().success());
    let watch = Watch::start(&folder, &[]);
    let all = watch.runs(3);
    for id in ["run", "linked", "piped"] {
        for what in ["run", "settings", "curves", "diagnostics"] {
            let answer = get(watch.port, &format!("/api/{what}/{id}"), &[]);
            assert!(
                !answer.body.contains("of mine"),
                "{what} {id}: {}",
                answer.body
            );
        }
    }
    assert!(!all.to_string().contains("of mine"));
    assert_eq!(super::row(&all, "linked")["state"], "unreadable");
    assert_eq!(super::row(&all, "piped")["state"], "unreadable");
}

#[test]
fn hostile_names_stay_names() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "<img src=x onerror=alert(1)>\"'&";
    let run = write_run(folder.path(), evil, 3, 10);
    let text = format!(
        "name = {}\n[train]\nsteps = 3\n",
        toml::Value::String("</script>\u{1b}[2J\u{202e}".into())
    );
    fs::write(run.join("resolved.toml"), text).unwrap();
    write_run(folder.path(), "tab\there", 3, 10);
    write_run(folder.path(), "tab\u{1}here", 3, 10);
    let watch = Watch::start(folder.path(), &[]);
    let all = watch.runs(3);
    let row = super::row(&all, evil);
    assert_eq!(row["name"], "</script>\u{fffd}[2J\u{fffd}");
    assert!(
        watch
            .get("/api/runs")
            .header("content-type")
            .unwrap()
            .starts_with("application/json")
    );
    assert_eq!(
        watch.get("/").header("x-content-type-options"),
        Some("nosniff")
    );
    // Names that look the same on screen still lead to different runs.
    super::row(&all, "tab\u{fffd}here");
    let second = super::row(&all, "tab\u{fffd}here (2)");
    assert_eq!(second["state"], json!("stopped"));
    let address = "/api/curves/tab%EF%BF%BDhere%20(2)";
    assert!(watch.json(address)["last_step"] == 3);
}
