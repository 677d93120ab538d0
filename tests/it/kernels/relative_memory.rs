//! Attention with relative position vectors needs memory that grows with the length, not with its square.

use formwork::kernel::Span;

use super::relative::{Case, Map, several_tiles};

/// The variable with which the test below measures one length in a separate process.
const LENGTH: &str = "FORMWORK_TEST_LENGTH";

/// Peak memory of this process in KiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

/// Memory for a pass and its gradients at this length, in KiB.
fn measured(length: usize) -> f64 {
    let case = Case {
        batch: 1,
        heads: [1, 1],
        span: Span::full(length),
        d_head: 32,
        ..several_tiles([
            Some((Map::Each { falling: true }, false)),
            Some((Map::Each { falling: false }, true)),
            Some((Map::Before(length), true)),
        ])
    };
    let before = peak();
    let all = case.run(true);
    assert!(all[0].is_some());
    peak() - before
}

#[test]
fn memory_grows_with_the_length() {
    if let Ok(length) = std::env::var(LENGTH) {
        println!("peak {}", measured(length.parse().unwrap()));
        return;
    }
    let of = |length: usize| -> f64 {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kernels::relative_memory::memory_grows_with_the_length",
            ])
            .arg("--nocapture")
            .env(LENGTH, length.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8(child.stdout).unwrap();
        let number = said
            .split("peak ")
            .nth(1)
            .and_then(|rest| rest.lines().next());
        number.expect(&said).parse().unwrap()
    };
    let (shorter, longer) = (of(4096), of(8192));
    assert!(
        longer <= 2.3 * shorter,
        "{shorter} KiB at 4096, {longer} KiB at 8192"
    );
    // The scores of all pairs alone would take 256 MiB.
    assert!(longer < 100.0 * 1024.0, "{longer} KiB at 8192");
}
